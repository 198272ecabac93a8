/** HTTP streaming and long polling: both read lines over `fetch`, with backpressure. */

import { backoff, retryAfter, SHORT_MS } from "../backoff.js";
import { pieces, Turns } from "../body.js";
import type { Message } from "../wire.js";
import { type ConnectPlan, type End, type Link, type Transport, type TransportHandlers, url } from "./transport.js";

/** Longest time that the server may hold a poll. Some proxies cut a response that is idle for 30 s. */
const WAIT = "25s";

/** A `fetch` with an endless body: the fastest transport in one direction. */
export const httpStreaming: Transport = {
  name: "http-streaming",
  isTwoWay: false,
  hasHeaders: true,
  hasBackpressure: true,
  isSupported: () => true,
  open: (plan, handlers) => requests(plan, handlers, (number) => (number ? null : { transport: "http-streaming" })),
};

/** One request after another. Each starts where the last response ended. */
export const longPolling: Transport = {
  name: "long-polling",
  isTwoWay: false,
  hasHeaders: true,
  hasBackpressure: true,
  isSupported: () => true,
  // The server answers the first request at once with the position of each topic. An empty response does not come
  // from the server.
  open: (plan, handlers) => requests(plan, handlers, (number) => ({ wait: number ? WAIT : "0s" })),
};

/**
 * Sends one request after another and reads the lines of each response, until a response has no lines.
 * @param parametersOf - returns the parameters of a request, by its number from 0; `null`: there is no such request.
 */
function requests(
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
        // A response that a proxy creates has no error of the server.
        const { error } = (await response.json().catch(() => ({}))) as Message;
        return { refusal: { status, error, retryAfter: retryAfter(response) } };
      }
      if (!(await read(body, handlers))) break;
      // A poll without events normally takes as long as `wait`. If a server or a cache answers such polls at once, the
      // next poll waits. The first poll requests an immediate response.
      if (!number || cursors() !== before || Date.now() - begunAt >= SHORT_MS) wait = backoff();
      else
        await new Promise((go) => {
          const timer = setTimeout(go, wait(0));
          signal.onabort = () => clearTimeout(timer);
        });
    }
    return {};
  };
  // A broken connection and an invalid body have the same result.
  void run()
    .catch(() => ({}))
    .then(handlers.ended);
  return { close: () => abort.abort() };
}

/** Reads lines until the body ends, and returns their number. The idle timeout ends an endless silent body. */
async function read(body: ReadableStream<Uint8Array>, handlers: TransportHandlers): Promise<number> {
  const next = pieces(body);
  const turns = new Turns();
  const decoder = new TextDecoder();
  // Parts of an unfinished line. They are joined once, however many there are.
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
