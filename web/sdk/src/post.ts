/** `POST`s to the server, with the page's token; some are repeated until they are answered. */

import { delay } from "./backoff.js";
import { isTransient, ThalwegError } from "./errors.js";
import type { Settings } from "./options.js";
import type { Answer, Message } from "./wire.js";

/** Attempts at what may be repeated. */
const ATTEMPTS_MAX = 6;

/** @internal */
export interface PostRequest {
  /** Below the server's root. */
  readonly path: string;
  readonly body: string;
  /** Of the body; JSON if left out. */
  readonly type?: string;
  /** The answer is to come within this time. */
  readonly timeoutMs: number;
  /** If left out, the page is asked for one at each attempt. */
  readonly token?: string | null;
  /** Idempotency key: the server does what has one once, however often it is asked; so it may be repeated. */
  readonly key?: string;
}

/** @throws ThalwegError what the server says, or `unreachable`. @internal */
export type Post = (request: PostRequest) => Promise<Message & Answer>;

/** @internal */
export function poster(settings: Settings): Post {
  return async (request) => {
    for (let attempt = 1; ; attempt++) {
      const isLast = !request.key || attempt === ATTEMPTS_MAX;
      try {
        return await postOnce(settings, request);
      } catch (error) {
        if (error instanceof ThalwegError) {
          if (isLast || !isTransient(error.status ?? 0)) throw error;
        } else if (isLast) throw new ThalwegError("unreachable", `no answer from ${request.path}: ${error}`);
      }
      await new Promise((go) => setTimeout(go, delay(attempt - 1)));
    }
  };
}

/** @throws ThalwegError what the server says; the status, or whatever went wrong, if it says nothing. */
async function postOnce(settings: Settings, request: PostRequest): Promise<Message & Answer> {
  const { path, body, type = "application/json", timeoutMs, key } = request;
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
  // Whoever stands in between has answered, and not the server.
  if (!message?.error) throw status;
  throw new ThalwegError(message.error.code, message.error.message, status);
}
