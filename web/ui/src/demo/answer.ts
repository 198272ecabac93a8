/** A question, and its answer, which arrives word by word. The address names the answer, so it survives a reload. */

import type { Gap, Session, Subscription } from "thalweg";
import { counted } from "../format.js";
import { request, sentence } from "../server.js";
import { ask, read } from "./code/answer.js";
import { at, type Draw, say } from "./page.js";

interface Word {
  readonly index: number;
  readonly text?: string;
  readonly done?: boolean;
}

const ID_LENGTH = 12;
/** Time after which the page says that no word has arrived, ms. */
const NO_WORD_MS = 15_000;
const NO_WORD = "No word yet: the server answers other questions first, or none at all. See its log.";
const NOT_WHOLE = "The server no longer has all words, because this page was disconnected for too long.";
const NOT_KEPT =
  "The server was restarted, and had this answer only in memory. Start it with --data DIR to keep answers.";

export function answerPanel(session: Session): Draw {
  const [words, said, link] = [at("words"), at("answer-live"), at<HTMLAnchorElement>("answer-link")];
  let subscription: Subscription<unknown> | undefined;
  let text = "";
  /** Index of the next event. */
  let next = 0;
  let faults = 0;
  let note = "";
  let isDone = true;
  let isDrawn = true;

  const show = (id: string): void => {
    subscription?.close();
    [text, next, faults, note, isDone, isDrawn] = ["", 0, 0, "", false, false];
    history.replaceState(null, "", `#answer=${id}`);
    link.href = location.href;
    link.hidden = false;
    subscription = read(session, id, (events: readonly Word[], gap: Gap | null) => {
      // A new word shows that the answer continues. A complete answer misses nothing.
      if (events.length) [note, isDone] = ["", false];
      if (gap && !isDone) [note, isDone] = [gap.reason === "epoch" ? NOT_KEPT : NOT_WHOLE, true];
      for (const { index, text: word = "", done = false } of events) {
        faults += Math.abs(index - next);
        next = index + 1;
        text += word;
        if (done) [note, isDone] = [`${counted(index, "word")}, ${faults || "none"} missing or repeated.`, true];
      }
      isDrawn = false;
    });
  };
  const isShown = (id: string): boolean => link.href.endsWith(id);
  const fail = (id: string, error: unknown): void => {
    // Another question may have replaced this one.
    if (!isShown(id)) return;
    [note, isDone, isDrawn] = [`${sentence(error)}.`, true, false];
  };
  const begin = async (question: number): Promise<void> => {
    const random = crypto.getRandomValues(new Uint8Array(ID_LENGTH));
    const id = Array.from(random, (byte) => (byte % 36).toString(36)).join("");
    show(id);
    // The server answers each id once, so the question may be sent again.
    const again = (error: { code?: string }) =>
      error.code === "unanswered" ? ask(session, id, question) : Promise.reject(error);
    await ask(session, id, question)
      .catch(again)
      .catch((error: unknown) => fail(id, error));
    setTimeout(() => {
      if (isShown(id) && !text && !note) [note, isDrawn] = [NO_WORD, false];
    }, NO_WORD_MS);
  };
  for (const [question, button] of [...at("questions").children].entries()) {
    button.addEventListener("click", () => void begin(question));
  }

  const [, id] = /^#answer=([a-z0-9]{12})$/.exec(location.hash) ?? [];
  if (id) {
    show(id);
    void request(`v1/topics/demo/answers/${id}?limit=1`, { isQuiet: true }).then(
      ({ status }) => {
        if (status === 404) fail(id, "This server does not have the answer that the address names: ask a question");
      },
      (error) => fail(id, error),
    );
  }

  return () => {
    if (isDrawn) return;
    isDrawn = true;
    const isAtEnd = words.scrollTop + words.clientHeight >= words.scrollHeight - 2;
    say(words, text);
    if (isAtEnd) words.scrollTop = words.scrollHeight;
    words.ariaBusy = `${!isDone}`;
    say(said, note);
  };
}
