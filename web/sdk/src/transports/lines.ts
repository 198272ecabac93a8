/** Lines over `fetch`: what HTTP streaming and long polling have in common. */

import { backoff, retryAfter, SHORT_MS } from "../backoff.js";
import { pieces } from "../body.js";
import { Turns } from "../turns.js";
import type { Message } from "../wire.js";
import { type ConnectPlan, type End, type Link, type TransportHandlers, url } from "./transport.js";

/**
 * Requests, one after the other, and reads the lines of each answer as they come, until
 * one has none.
 *
 * @param parametersOf - a request's parameters, by its number from 0; `null`: there is no such.
 */
export function requests(
  plan: ConnectPlan,
  handlers: TransportHandlers,
  parametersOf: (number: number) => Record<string, string> | null,
): Link {
  const abort = new AbortController();
  const { signal } = abort;
  const run = async (): Promise<End> => {
    let parameters: Record<string, string> | null;
    let wait = backoff();
    const cursors = (): string => plan.topics.map(({ cursor }) => cursor).join();
    for (let number = 0; (parameters = parametersOf(number)); number++) {
      const begunAt = Date.now();
      const before = cursors();
      const headers = { ...(plan.token && { Authorization: `Bearer ${plan.token}` }) };
      const request = { headers, cache: "no-store", signal } as const;
      const response = await plan.fetch(url(plan, parameters), request);
      const { ok, status, body } = response;
      if (!ok || !body) {
        // One that is not ours is of whoever stands in between.
        const { error } = (await response.json().catch(() => ({}))) as Message;
        return { refusal: { status, error, retryAfter: retryAfter(response) } };
      }
      if (!(await read(body, handlers))) break;
      // A poll that brings nothing takes its time: of a server, or a cache, that answers such polls at once
      // nothing is asked in a tight loop. The first poll asks for that.
      if (!number || cursors() !== before || Date.now() - begunAt >= SHORT_MS) wait = backoff();
      else
        await new Promise((go) => {
          const timer = setTimeout(go, wait(0));
          // Nobody waits for the end of a link that was closed.
          signal.onabort = () => clearTimeout(timer);
        });
    }
    return {};
  };
  // Cut, or not the wire: it makes no difference here.
  void run()
    .catch(() => ({}))
    .then(handlers.ended);
  return { close: () => abort.abort() };
}

/**
 * Reads lines until the body ends. One that does not end is a connection's silence, and its
 * end.
 *
 * @returns how many there were.
 */
async function read(body: ReadableStream<Uint8Array>, handlers: TransportHandlers): Promise<number> {
  const next = pieces(body);
  const turns = new Turns();
  const decoder = new TextDecoder();
  // Parts of a line that has not ended: joined once, however many they are.
  let parts: string[] = [];
  let count = 0;
  for (;;) {
    await turns.next();
    await handlers.drained();
    const piece = await next();
    if (!piece) return count;
    const [part, ...others] = decoder.decode(piece, { stream: true }).split("\n") as [string];
    parts.push(part);
    for (const other of others) {
      count += 1;
      const line = parts.join("");
      if (line) handlers.text(line);
      parts = [other];
    }
  }
}
