/** `POST` requests to the server with the page's token. Requests with a key are repeated until they are answered. */

import { backoff, retryAfter } from "./backoff.js";
import { isTransient, ThalwegError } from "./errors.js";
import type { Settings } from "./options.js";
import type { Answer, Message } from "./wire.js";

/** Number of attempts of a repeatable request. */
const ATTEMPTS_MAX = 6;

/** @internal */
export interface PostRequest {
  /** Path below the server's root. */
  readonly path: string;
  readonly body: string;
  /** Media type of the body. Default: JSON. */
  readonly type?: string;
  /** Longest time until the answer, ms. Default: the idle timeout. */
  readonly timeoutMs?: number;
  /** The token. By default the page is asked for one at each attempt. */
  readonly token?: string | null;
  /** Idempotency key: the server executes requests with the same key once, so the request may be repeated. */
  readonly key?: string;
}

/** @throws ThalwegError the server's error, or `unreachable`. @internal */
export type Post = (request: PostRequest) => Promise<Message & Answer>;

/** @internal */
export function poster(settings: Settings): Post {
  return async (request) => {
    const wait = backoff();
    for (let attempt = 1; ; attempt++) {
      let waitMs = 0;
      try {
        return await postOnce(settings, request);
      } catch (error) {
        const { retryAfter = 0 } = error as { retryAfter?: number };
        // The server remembers a key for a few minutes: after a longer wait a repeat would not be safe.
        const isLast = !request.key || attempt === ATTEMPTS_MAX || retryAfter > settings.idleTimeout;
        if (error instanceof ThalwegError) {
          if (isLast || !isTransient(error.status ?? 0)) throw error;
        } else if (isLast) throw new ThalwegError("unreachable", `no answer from ${request.path}: ${error}`);
        waitMs = wait(0, retryAfter);
      }
      await new Promise((go) => setTimeout(go, waitMs));
    }
  };
}

/** @throws ThalwegError the server's error; an `Error` if there is no response, or one without an error of the server. */
async function postOnce(settings: Settings, request: PostRequest): Promise<Message & Answer> {
  const { path, body, type = "application/json", timeoutMs = settings.idleTimeout, key } = request;
  const token = request.token ?? (await settings.token());
  const response = await settings.fetch(new URL(path, settings.base), {
    method: "POST",
    headers: {
      "Content-Type": type,
      ...(token && { Authorization: `Bearer ${token}` }),
      ...(key && { "Idempotency-Key": key }),
    },
    body,
    signal: AbortSignal.timeout(timeoutMs),
  });
  const { ok, status } = response;
  const message = (await response.json().catch(() => null)) as (Message & Answer) | null;
  if (ok && message) return message;
  const { code = "", message: why = `${status}` } = message?.error ?? {};
  // A response without a code comes from a proxy, not from the server.
  const waitMs = retryAfter(response);
  throw Object.assign(
    code ? new ThalwegError(code, why, status, message?.newest) : new Error(why),
    waitMs && { retryAfter: waitMs },
  );
}
