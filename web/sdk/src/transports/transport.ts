/** The interface of transports. A transport turns a plan into messages. The session handles reconnects and timeouts. */

import { type Close, type Cursor, type Refusal, topicPath } from "../wire.js";

/** A topic, and the cursor of its subscription. */
export interface TopicCursor {
  /** The topic. */
  readonly topic: string;
  /** The filter of keys of a keyed topic, as the query of a URL, e.g. `key=bus+7&prefix=tram%2F`; empty without one. */
  readonly filter?: string;
  /** The cursor after the last received message. It changes while the connection lasts. */
  readonly cursor: Cursor;
}

/** The topics, the terms and the credentials of a connection. */
export interface ConnectPlan {
  /** The server's root; `v1/…` is below it. */
  base: URL;
  /**
   * The topics to subscribe to. Two-way transports ignore them: the session subscribes by commands once the
   * connection is open.
   */
  topics: readonly TopicCursor[];
  /** `policy` and `interval`, as parameters of the URL; for one-way transports only. */
  terms: Readonly<Record<string, string | undefined>>;
  /** The parameter `deltas` of the URL: whether the server may send patches of value topics. */
  deltas: "patch" | undefined;
  /** The parameters `member` and `info` of the URL, which describe the page to others. */
  member?: Readonly<Record<string, string | undefined>>;
  /** For the header `Authorization: Bearer …`, if the transport has headers; `null` without a token. */
  token: string | null;
  /** For the parameter `ticket` of the URL, if the transport has no headers. */
  ticket: string | null | undefined;
  /** Replaces the platform's `fetch`. */
  fetch: typeof fetch;
}

/**
 * The handlers that a transport calls, in this order: `opened` once, if it is two-way; `text` for each message;
 * `ended` after the last one. After {@link Link.close}, `text` and `ended` have no effect.
 */
export interface TransportHandlers {
  /** {@link Link.send} can be called from now on. For two-way transports only. */
  opened(): void;
  /** A message, as JSON. Any other text ends the connection. */
  text(text: string): void;
  /** The connection has ended. The session then calls {@link Link.close}. */
  ended(end: End): void;
  /** Resolves when the page has room. A transport with backpressure awaits it before it reads more. */
  drained(): Promise<void>;
}

/** How a connection ended: closed by the server (`close`), rejected by the server (`refusal`), or broken (neither). */
export interface End {
  /** The code and reason of the server's close. Omit it for a `close` message that arrived as text. */
  close?: Close;
  /** The HTTP response that rejected the connection. */
  refusal?:
    | {
        /** The status of the response. */
        status: number;
        /** The server's error; a proxy's response has none. */
        error?: Refusal | undefined;
        /** The delay that the response asks for (`Retry-After`), ms. */
        retryAfter?: number | undefined;
      }
    | undefined;
}

/** An open connection of a transport. */
export interface Link {
  /** Sends a command, as JSON. For two-way transports only. */
  send?(text: string): void;
  /** Closes the connection and releases its resources. Also called after the connection has ended, possibly twice. */
  close(): void;
}

/** The name of a transport. */
export type TransportName = "websocket" | "http-streaming" | "sse" | "forever-frame" | "long-polling";

/**
 * A way to receive messages from a server. The session decides when to open a connection and when to give it up.
 * {@link ConnectOptions.transports} accepts a page's own transports.
 *
 * ```js
 * // For sessions with one topic.
 * const lines = {
 *   name: "http-streaming", isTwoWay: false, hasHeaders: true, hasBackpressure: false,
 *   isSupported: () => true,
 *   open({ base, topics: [{ topic, cursor }] }, handlers) {
 *     const source = myLines(new URL(`v1/topics/${topic}?cursor=${cursor}&transport=http-streaming`, base));
 *     source.onLine = handlers.text;
 *     source.onEnd = () => handlers.ended({});
 *     return { close: () => source.stop() };
 *   },
 * };
 * ```
 */
export interface Transport {
  /** The name that {@link Status} shows. */
  name: TransportName;
  /** Whether commands can be sent over its connections. */
  isTwoWay: boolean;
  /** Whether its requests can have headers, and so a token. Otherwise they get a ticket. */
  hasHeaders: boolean;
  /** Whether it awaits {@link TransportHandlers.drained}. Otherwise the session closes a connection that brings more than the page can process. */
  hasBackpressure: boolean;
  /** Returns whether it is available here, for the server at `base`. */
  isSupported(base: URL): boolean;
  /**
   * Opens a connection. It must not call `handlers` before it returns. If it throws, the connection counts as broken.
   */
  open(plan: ConnectPlan, handlers: TransportHandlers): Link;
}

/** Returns the URL of a plan. @internal */
export function url(plan: ConnectPlan, more: Readonly<Record<string, string>> = {}): URL {
  const { topics, terms, deltas, member, ticket } = plan;
  const only = topics.length === 1 ? topics[0] : undefined;
  const url = new URL(only ? `${topicPath(only.topic)}?${only.filter ?? ""}` : "v1/topics", plan.base);
  for (const { topic, filter } of only ? [] : topics)
    url.searchParams.append("topic", topic + (filter ? `?${filter}` : ""));
  for (const { cursor } of topics) url.searchParams.append("cursor", cursor);
  for (const [key, value] of Object.entries({ ...terms, deltas, ...member, ...more, ticket })) {
    if (value) url.searchParams.set(key, value);
  }
  return url;
}
