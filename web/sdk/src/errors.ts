/** What goes wrong. */

import type { End } from "./transports/transport.js";

/**
 * Why a session, a subscription or a call has failed. `code` is for programs and `message`
 * for people: a sentence, mostly with the remedy.
 *
 * | `code` | when |
 * |---|---|
 * | one of docs/wire.md, e.g. `unauthorized` | the server refused a request or a command |
 * | `close_1008` and its like | the server ended the connection with this close code, and reconnecting would not help |
 * | `deleted`, `gone` | the topic has ended: a publisher deleted it, or it is fetched and there is no such thing |
 * | `slow`, `trimmed` | events are missing, and the subscription's policy is `close`: it fell behind, or its position is too old |
 * | `closed` | the session is closed |
 * | `bad_event` | the page published something that is no JSON, such as bytes |
 * | `bad_topic`, `bad_cursor` | what the page asked for cannot be; nothing was sent |
 * | `already_subscribed` | the session is subscribed to the topic with another `from`, `interval` or `policy`, which cannot be changed; nothing was sent |
 * | `no_transport` | none of the transports, or not the one asked for, exists here |
 * | `unreachable` | a `POST` was not answered; an event with a key was sent six times |
 * | `unanswered` | the connection broke before the answer came: the server may or may not have carried it out |
 * | `no_worker`, `failed` | in a Worker only: it does not load; or the page's own code threw, e.g. its `token` |
 */
export class ThalwegError extends Error {
  /** `ThalwegError`. */
  override readonly name = "ThalwegError";
  /** As in the table above. */
  declare readonly code: string;
  /** The status of the HTTP response that refused it; `null` if there was none. */
  declare readonly status: number | null;

  /** @internal How long the response asked to wait, ms. */
  declare retryAfter?: number;

  /** Sessions make them; a page has no need to. */
  constructor(code: string, message: string, status: number | null = null) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** The code of an error that the page's `token` threw. @internal */
export const NO_TOKEN = "no_token";

/** Whether another attempt may fare better than one with this status. @internal */
export function isTransient(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status);
}

/** So often a token may be refused before that is taken for the answer. */
const UNAUTHORIZED_MAX = 2;

/** All topics of a connection have ended: nothing is wrong, and others may be wanted. @internal */
export const ENDED = 4500;

/**
 * Why there will be no other connection after one that ended like this: the server says so, or
 * would refuse it as well. `null`: another one may fare better.
 *
 * @param unauthorized - counts, and says how often a token was refused since something last arrived. @internal
 */
export function finalError({ close, refusal }: End, unauthorized: () => number): ThalwegError | null {
  const { status = 0, error } = refusal ?? {};
  if (error && !isTransient(status) && (status !== 401 || unauthorized() >= UNAUTHORIZED_MAX)) {
    return new ThalwegError(error.code, error.message, status);
  }
  return close && !close.reconnect && close.code !== ENDED
    ? new ThalwegError(`close_${close.code}`, close.reason)
    : null;
}

/**
 * Calls the page's code. What it throws is reported as an uncaught error of the page, and
 * does not stop the session. @internal
 */
export function safely<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
