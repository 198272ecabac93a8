/** Errors of sessions, subscriptions and calls. */

import type { End } from "./transports/transport.js";
import type { Newest } from "./wire.js";

/**
 * The reason why a session, a subscription or a call failed. `code` is for programs. `message` is a sentence for
 * people, usually with the remedy.
 *
 * | `code` | when |
 * |---|---|
 * | a code of docs/reference/errors.md, e.g. `unauthorized` | the server rejected a request or a command |
 * | `close_1008` and similar | the server closed the connection with this close code, and reconnecting would not help |
 * | `deleted`, `gone` | the topic has ended: a publisher deleted it, or its upstream no longer has it |
 * | `slow`, `trimmed` | events are missing, and the subscription's policy is `close`: the subscription fell behind, or its position is too old |
 * | `closed` | the session is closed |
 * | `bad_event` | the page published a value that is not JSON, such as bytes |
 * | `bad_topic`, `bad_cursor`, `bad_key` | the topic's name, the start or the filter of keys is invalid; no request was sent |
 * | `already_subscribed` | the session is subscribed to the topic with another `from`, `interval`, `policy`, `keys` or `prefix`, which cannot be changed, or with `map` instead of `subscribe` (or the reverse); no request was sent |
 * | `not_keyed`, `no_module` | a map ended: its topic is not keyed, or the module `keyed.js` does not load |
 * | `no_transport` | the requested transport is not available here, or none is |
 * | `unreachable` | a `POST` was not answered; the session sent a single event up to six times |
 * | `unanswered` | the connection broke before the answer arrived: the server may or may not have executed the command |
 * | `no_worker`, `failed` | in a Worker only: the Worker does not load; or the page's own code threw, e.g. its `token` |
 */
export class ThalwegError extends Error {
  /** `ThalwegError`. */
  override readonly name = "ThalwegError";
  /** A code of the table above. */
  declare readonly code: string;
  /** The status of the HTTP response that rejected the request; `null` without a response. */
  declare readonly status: number | null;

  /** After `condition_failed`: the newest event of the key; `null` if the key has none, or the client may not read it. Also `null` after other errors. */
  declare readonly newest: Newest | null;

  /** @internal How long the response asked to wait, ms. */
  declare retryAfter?: number;

  /** The SDK creates these errors; a page does not need to. */
  constructor(code: string, message: string, status: number | null = null, newest: Newest | null = null) {
    super(message);
    this.code = code;
    this.status = status;
    this.newest = newest;
  }
}

/** The code of an error that the page's `token` threw. @internal */
export const NO_TOKEN = "no_token";

/** Returns whether another attempt may succeed after a response with this status. @internal */
export function isTransient(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status);
}

/** Number of consecutive rejected tokens after which a session fails. */
const UNAUTHORIZED_MAX = 2;

/** The close code after all topics of a connection have ended. It is not a failure: the session may want other topics. @internal */
export const ENDED = 4500;

/**
 * Returns the error if reconnecting would not help; `null` if the next connection may succeed.
 * @param unauthorized - counts this rejected token, and returns the number of rejections since the last message. @internal
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

/** Calls the page's code. An error that it throws becomes an uncaught error of the page and does not stop the session. @internal */
export function safely<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
