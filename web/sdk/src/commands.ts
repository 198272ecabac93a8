/** Commands and their answers: over a connection that goes both ways, or by `POST`. */

import { delay } from "./backoff.js";
import type { Connection } from "./connection.js";
import { isTransient, ThalwegError } from "./errors.js";
import type { Answer, Message, Refusal } from "./wire.js";

/** Attempts to publish what may be repeated. */
const ATTEMPTS_MAX = 6;

interface Waiting {
  by: Connection;
  resolve(answer: Answer): void;
  reject(error: ThalwegError): void;
}

/** @internal */
export interface Commands {
  /** Sends a command over a connection, and waits for the answer. */
  send(by: Connection, command: string, members: object): Promise<Answer>;
  /** A message has come: it may be an answer, or a refusal. */
  receive(message: Message): void;
  /** Whether a command waits for its answer. */
  isWaiting(): boolean;
  /** Nobody will answer what was sent over it. */
  lost(by: Connection): void;
  /**
   * `POST`s text, which is to be answered in so long. With a `key` the server does it once,
   * however often it is asked: then it is asked until it answers. Without a token the
   * session's is asked for, each time.
   */
  post(
    path: string,
    body: string,
    withinMs: number,
    token?: string | null,
    type?: string,
    key?: string,
  ): Promise<Message & Answer>;
}

/** @internal */
export function commands(base: URL, request: typeof fetch, freshToken: () => Promise<string | null>): Commands {
  const waiting = new Map<unknown, Waiting>();
  let last = 0;
  return {
    send: (by, command, members) =>
      new Promise((resolve, reject) => {
        by.send(JSON.stringify({ command, id: ++last, ...members }));
        waiting.set(last, { by, resolve, reject });
      }),
    receive({ answer, error }) {
      const id = (answer ?? error)?.id;
      const asked = waiting.get(id);
      waiting.delete(id);
      if (answer) asked?.resolve(answer);
      else asked?.reject(new ThalwegError((error as Refusal).code, (error as Refusal).message));
    },
    isWaiting: () => waiting.size > 0,
    lost(by) {
      for (const [id, asked] of waiting) {
        if (asked.by !== by) continue;
        waiting.delete(id);
        asked.reject(new ThalwegError("unanswered", "it broke before the answer came"));
      }
    },
    async post(path, body, withinMs, token, type = "application/json", key) {
      for (let attempt = 1; ; attempt++) {
        const isLast = !key || attempt === ATTEMPTS_MAX;
        try {
          const shown = token ?? (await freshToken());
          const response = await request(new URL(path, base), {
            method: "POST",
            headers: {
              "Content-Type": type,
              ...(shown && { Authorization: `Bearer ${shown}` }),
              ...(key && { "Idempotency-Key": key }),
            },
            body,
            signal: AbortSignal.timeout(withinMs),
          });
          const { ok, status } = response;
          const said = (await response.json().catch(() => null)) as (Message & Answer) | null;
          if (ok && said) return said;
          // Whoever stands in between has answered, and not the server.
          if (!said?.error) throw status;
          const { code, message } = said.error;
          if (isLast || !isTransient(status)) throw new ThalwegError(code, message, status);
        } catch (error) {
          if (error instanceof ThalwegError) throw error;
          if (isLast) throw new ThalwegError("unreachable", `no answer from ${path}: ${error}`);
        }
        await new Promise((go) => setTimeout(go, delay(attempt - 1)));
      }
    },
  };
}
