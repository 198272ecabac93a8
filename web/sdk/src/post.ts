/** `POST`s to the server, with the page's token; some are repeated until they are answered. */

import { backoff, retryAfter } from "./backoff.js";
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
    const wait = backoff();
    for (let attempt = 1; ; attempt++) {
      let waitMs = 0;
      try {
        return await postOnce(settings, request);
      } catch (error) {
        const { retryAfter = 0 } = error as { retryAfter?: number };
        // The server remembers a key for some minutes: one that is asked to wait longer asks no more.
        const isLast = !request.key || attempt === ATTEMPTS_MAX || retryAfter > request.timeoutMs;
        if (error instanceof ThalwegError) {
          if (isLast || !isTransient(error.status ?? 0)) throw error;
        } else if (isLast) throw new ThalwegError("unreachable", `no answer from ${request.path}: ${error}`);
        waitMs = wait(0, retryAfter);
      }
      await new Promise((go) => setTimeout(go, waitMs));
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
  const { code = "", message: why = `${status}` } = message?.error ?? {};
  // Without a code somebody in between has answered, and not the server.
  const waitMs = retryAfter(response);
  throw Object.assign(code ? new ThalwegError(code, why, status) : new Error(why), waitMs && { retryAfter: waitMs });
}
