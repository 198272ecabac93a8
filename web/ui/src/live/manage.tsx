/** The part of a topic's page that is closed at first: publish, code, newest events, subscribers, settings, delete. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { counted } from "../format.js";
import { traceLink } from "../overview/trace.js";
import { askForToken, errorMessage, problemOf, request, serverUrl, token } from "../server.js";
import { write } from "./address.js";
import { LANGUAGES, type Language, snippet, topicPath } from "./snippets.js";

/** Number of events that "Newest events" shows. */
const NEWEST = 50;

interface Props {
  readonly topic: string;
  /** Whether the topic has the rows of the query of this page. */
  readonly isQuery: boolean;
}

export function Manage({ topic, isQuery }: Props) {
  return (
    <section class="manage" id="manage" aria-label={`Manage ${topic}`}>
      {!isQuery && <Publish topic={topic} />}
      <Copy topic={topic} isQuery={isQuery} />
      <Newest topic={topic} />
      <Subscribers topic={topic} />
      <Settings topic={topic} />
      {!isQuery && <Delete topic={topic} />}
    </section>
  );
}

interface Outcome {
  readonly text: string;
  readonly isError: boolean;
  /** Whether another token may help. */
  readonly needsToken: boolean;
}

/** The error of a request for which the reader's token has no right. */
class NotAllowed extends Error {}

/** Runs an action, and keeps what it said or why it failed. */
function useOutcome(): [Outcome | null, (act: () => Promise<string>) => void, () => void] {
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const run = (act: () => Promise<string>): void => {
    act().then(
      (text) => setOutcome({ text, isError: false, needsToken: false }),
      (error: unknown) =>
        setOutcome({ text: problemOf(error).text, isError: true, needsToken: error instanceof NotAllowed }),
    );
  };
  return [outcome, run, () => setOutcome(null)];
}

function Said({ outcome }: { outcome: Outcome | null }) {
  if (!outcome) return null;
  return (
    <p class={outcome.isError ? "problem" : "note"} role={outcome.isError ? "alert" : "status"}>
      {outcome.text}.
      {outcome.needsToken && (
        <>
          {" "}
          <button type="button" onClick={askForToken}>
            Enter a token
          </button>
        </>
      )}
    </p>
  );
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  const message = await errorMessage(response);
  throw response.status === 401 || response.status === 403 ? new NotAllowed(message) : new Error(message);
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="part">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

function Publish({ topic }: { topic: string }) {
  const [text, setText] = useState('{"hello":"world"}');
  const [key, setKey] = useState("");
  const [outcome, run] = useOutcome();
  const id = useId();
  const publish = async (): Promise<string> => {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new Error(`This is not JSON: ${(error as Error).message}`);
    }
    const parameters = key ? `?${new URLSearchParams({ key })}` : "";
    const response = await checked(
      // The text itself: `JSON.parse` would round large numbers.
      await request(`v1/topics/${topicPath(topic)}${parameters}`, { method: "POST", json: text, isQuiet: true }),
    );
    const { position } = (await response.json()) as { position: string };
    return `Published at ${position}`;
  };
  return (
    <Part title="Publish">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          run(publish);
        }}
      >
        <label for={id} class="quiet">
          Event, as JSON
        </label>
        <textarea id={id} rows={3} spellcheck={false} value={text} onInput={(it) => setText(it.currentTarget.value)} />
        <div class="go">
          <label class="key">
            Key, for keyed topics
            <input value={key} onInput={({ currentTarget }) => setKey(currentTarget.value)} />
          </label>
          <button type="submit" class="primary">
            Publish
          </button>
        </div>
      </form>
      <Said outcome={outcome} />
    </Part>
  );
}

function CopyButton({ text, name }: { text: string; name: string }) {
  const [outcome, run] = useOutcome();
  const copy = async (): Promise<string> => {
    // Without TLS, browsers have no clipboard except on this machine.
    if (!navigator.clipboard) throw new Error("this browser allows copying only over HTTPS: select the text instead");
    await navigator.clipboard.writeText(text);
    return "Copied";
  };
  return (
    <>
      <button type="button" onClick={() => run(copy)}>
        {name}
      </button>
      <Said outcome={outcome} />
    </>
  );
}

function Copy({ topic, isQuery }: Props) {
  const [language, setLanguage] = useState<Language>("curl");
  const code = snippet(language, topic, serverUrl("."), token() !== "");
  const link = isQuery ? location.href : serverUrl(`live${write({ topic, view: null, query: null })}`);
  return (
    <Part title="Subscribe elsewhere">
      <fieldset class="choice">
        <legend class="quiet">Code for</legend>
        {LANGUAGES.map((name) => (
          <label key={name}>
            <input type="radio" name="language" checked={language === name} onChange={() => setLanguage(name)} />
            {name}
          </label>
        ))}
      </fieldset>
      <pre tabIndex={0} aria-label={`Code for ${language}`}>
        {code}
      </pre>
      <div class="go">
        <CopyButton key={language} text={code} name="Copy code" />
      </div>
      <p class="link">
        Share this page: <a href={link}>{link}</a>
      </p>
      <div class="go">
        <CopyButton text={link} name="Copy link" />
      </div>
    </Part>
  );
}

function Newest({ topic }: { topic: string }) {
  const [lines, setLines] = useState<readonly string[] | null>(null);
  const [outcome, run] = useOutcome();
  const load = async (): Promise<string> => {
    const path = `v1/topics/${topicPath(topic)}`;
    let response = await request(`${path}?newest=${NEWEST}`);
    // The server does not know the newest events of a keyed topic, but its keys in the order of their changes.
    const isKeyed = response.status === 400;
    if (isKeyed) response = await request(`${path}?limit=${NEWEST}`);
    const { events } = (await (await checked(response)).json()) as { events: unknown[] };
    const lines = events.map((event) => JSON.stringify(event));
    setLines(isKeyed ? lines : lines.reverse());
    const count = counted(events.length, "event");
    return isKeyed ? `${count} of a keyed topic, the longest unchanged first` : `${count}, the newest first`;
  };
  return (
    <Part title={`Newest ${NEWEST} events`}>
      <div class="go">
        <button type="button" onClick={() => run(load)}>
          {lines ? "Read again" : "Read"}
        </button>
      </div>
      {lines && lines.length > 0 && (
        <pre class="lines" tabIndex={0} aria-label="Newest events">
          {lines.join("\n")}
        </pre>
      )}
      <Said outcome={outcome} />
    </Part>
  );
}

interface ShownSubscribers {
  readonly count: number;
  readonly subscribers: readonly {
    readonly subject?: string;
    readonly token?: string;
    readonly transport: string;
    readonly lag: number;
    readonly full_ms: number;
  }[];
}

/** Time between two looks at the subscribers, in ms. */
const LOOK_MS = 2_000;

/** Rows of the table of subscribers. The server sorts them by how long their connections have been full, then by lag. */
const SHOWN = 20;

function Subscribers({ topic }: { topic: string }) {
  const [shown, setShown] = useState<ShownSubscribers | null>(null);
  const [outcome, run, clear] = useOutcome();
  useEffect(() => {
    const look = () =>
      run(async () => {
        const response = await request(`overview/subscribers/${topicPath(topic)}`, { isQuiet: true });
        // Without the right, each further look would be refused, too.
        if (response.status === 401 || response.status === 403) clearInterval(timer);
        setShown((await (await checked(response)).json()) as ShownSubscribers);
        clear();
        return "";
      });
    const timer = setInterval(() => document.hidden || look(), LOOK_MS);
    look();
    return () => clearInterval(timer);
  }, [topic]);
  const count = shown?.count ?? 0;
  return (
    <Part title="Subscribers">
      {outcome?.isError && <Said outcome={outcome} />}
      {shown && (
        <p class="origin">
          {count === 0
            ? "No client subscribes to this topic at this server."
            : `${counted(count, "subscriber")} at this server.`}
          {count > SHOWN && ` The table has ${SHOWN} of them, those with full connections first.`}
        </p>
      )}
      {count > 0 && (
        <table class="settings subscribers" aria-label="Subscribers">
          <thead>
            <tr>
              <th scope="col">Subscriber</th>
              <th scope="col">Transport</th>
              <th scope="col">Events behind</th>
              <th scope="col">Connection</th>
            </tr>
          </thead>
          <tbody>
            {shown?.subscribers.slice(0, SHOWN).map(({ subject, token, transport, lag, full_ms }, index) => (
              <tr key={index}>
                <th scope="row">
                  {subject ? (
                    <a href={traceLink(subject)} title={`Trace ${subject}`}>
                      {subject}
                    </a>
                  ) : (
                    (token && `token ${token}`) || "without a token"
                  )}
                </th>
                <td>{transport}</td>
                <td>{lag.toLocaleString("en")}</td>
                <td class={full_ms === 0 ? "soft" : undefined}>
                  {full_ms === 0 ? "has room" : `full for ${(full_ms / 1000).toFixed(1)} s`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Part>
  );
}

interface Described {
  readonly origin: string;
  readonly settings: readonly { readonly name: string; readonly value: string; readonly from: string }[];
}

function Settings({ topic }: { topic: string }) {
  const [described, setDescribed] = useState<Described | null>(null);
  const [outcome, run] = useOutcome();
  useEffect(() => {
    run(async () => {
      const response = await checked(await request(`overview/settings/${topicPath(topic)}`, { isQuiet: true }));
      setDescribed((await response.json()) as Described);
      return "";
    });
  }, [topic]);
  return (
    <Part title="Settings">
      {outcome?.isError && <Said outcome={outcome} />}
      {described && (
        <>
          <p class="origin">Events: {described.origin}.</p>
          <table class="settings">
            <thead>
              <tr>
                <th>Setting</th>
                <th>Value</th>
                <th>From</th>
              </tr>
            </thead>
            <tbody>
              {described.settings.map(({ name, value, from }) => (
                <tr key={name}>
                  <th scope="row">
                    <code>{name}</code>
                  </th>
                  <td>{value}</td>
                  <td class={from === "default" ? "soft" : undefined}>{FROM[from] ?? `[[topic]] ${from}`}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </Part>
  );
}

const FROM: Readonly<Record<string, string>> = { default: "default", "**": "[[topic]] for all topics" };

function Delete({ topic }: { topic: string }) {
  const [isAsked, setIsAsked] = useState(false);
  // The pressed button disappears: the focus moves to the one that takes its place.
  const safe = useRef<HTMLButtonElement>(null);
  const wasAsked = useRef(false);
  useEffect(() => {
    if (isAsked || wasAsked.current) safe.current?.focus();
    wasAsked.current = isAsked;
  }, [isAsked]);
  const [outcome, run, clear] = useOutcome();
  const remove = async (): Promise<string> => {
    await checked(await request(`v1/topics/${topicPath(topic)}`, { method: "DELETE", isQuiet: true }));
    setIsAsked(false);
    return `Deleted ${topic}`;
  };
  return (
    <Part title="Delete">
      {isAsked ? (
        <>
          <p>
            Delete <strong>{topic}</strong>? Its subscribers are told that it has ended, and no client can read its
            events any more.
          </p>
          <div class="go">
            <button type="button" class="danger" onClick={() => run(remove)}>
              Delete {topic}
            </button>
            <button ref={safe} type="button" onClick={() => setIsAsked(false)}>
              Keep it
            </button>
          </div>
        </>
      ) : (
        <div class="go">
          <button
            ref={safe}
            type="button"
            onClick={() => {
              clear();
              setIsAsked(true);
            }}
          >
            Delete this topic …
          </button>
        </div>
      )}
      <Said outcome={outcome} />
    </Part>
  );
}
