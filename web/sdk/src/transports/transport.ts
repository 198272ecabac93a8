/**
 * What a transport is: it turns a plan into messages, and does nothing else. It neither
 * reconnects nor has timeouts; whoever opened it does.
 */

import { type Close, type Cursor, type Refusal, topicPath } from "../wire.js";

/** A topic, and where the subscription is. */
export interface TopicCursor {
  /** The topic. */
  readonly topic: string;
  /** After what has been received: it changes while the connection lasts. */
  readonly cursor: Cursor;
}

/** What a connection is to carry. */
export interface ConnectPlan {
  /** The server's root: `v1/…` is below it. */
  base: URL;
  /**
   * The topics to subscribe to. A two-way transport leaves them out: the session subscribes
   * by commands once the connection is open.
   */
  topics: readonly TopicCursor[];
  /** `policy` and `interval`, as parameters of the URL; of one-way transports only. */
  terms: Readonly<Record<string, string | undefined>>;
  /** The parameter `deltas` of the URL: whether versions of value topics may come as patches. */
  deltas: "patch" | undefined;
  /** For the header `Authorization: Bearer …`, if the transport has headers; `null`: none. */
  token: string | null;
  /** For the parameter `ticket` of the URL, if the transport has no headers. */
  ticket: string | null | undefined;
  /** To be used instead of the platform's. */
  fetch: typeof fetch;
}

/**
 * What a transport calls. In order: `opened` once, if it is two-way; `text` for each message;
 * `ended` when nothing comes any more. After {@link Link.close} `text` and `ended` do nothing.
 */
export interface TransportHandlers {
  /** {@link Link.send} can be called from now on. Of two-way transports only. */
  opened(): void;
  /** A message, as JSON. Text that is not one ends the connection. */
  text(text: string): void;
  /** Nothing comes any more. The session calls {@link Link.close} in turn. */
  ended(end: End): void;
  /** A transport with backpressure waits for it before it reads more. */
  drained(): Promise<void>;
}

/**
 * How a connection ended: the server closed it (`close`), refused it (`refusal`), or neither:
 * it was cut.
 */
export interface End {
  /** What the server closed it with. A `close` message that came as text need not be repeated. */
  close?: Close;
  /** The HTTP response that refused it. */
  refusal?:
    | {
        /** The status of the response. */
        status: number;
        /** What the server said; without it, it was somebody in between. */
        error?: Refusal | undefined;
        /** How long the response asks to wait (`Retry-After`), ms. */
        retryAfter?: number | undefined;
      }
    | undefined;
}

/** An open connection of a transport. */
export interface Link {
  /** Sends a command, as JSON. Of two-way transports only. */
  send?(text: string): void;
  /** Closes it and releases what it holds. Also called after it has ended by itself, perhaps twice. */
  close(): void;
}

/** The name of a transport. */
export type TransportName = "websocket" | "http-streaming" | "sse" | "forever-frame" | "long-polling";

/**
 * A way to receive messages from a server. The session decides when to open a connection, and
 * when to give it up; {@link ConnectOptions.transports} takes transports of a page's own.
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
  /** Whether its requests can have headers, and so a token; if not, they get a ticket. */
  hasHeaders: boolean;
  /** Whether it waits for {@link TransportHandlers.drained}; if not, the session leaves a connection that brings more than the page can process. */
  hasBackpressure: boolean;
  /** Whether it exists here, for the server at `base`. */
  isSupported(base: URL): boolean;
  /**
   * Opens a connection. It must not call `handlers` before it has returned. If it throws, the
   * connection counts as cut.
   */
  open(plan: ConnectPlan, handlers: TransportHandlers): Link;
}

/** The URL of a plan. @internal */
export function url(plan: ConnectPlan, more: Readonly<Record<string, string>> = {}): URL {
  const { topics, terms, deltas, ticket } = plan;
  const only = topics.length === 1 ? topics[0] : undefined;
  const url = new URL(only ? topicPath(only.topic) : "v1/topics", plan.base);
  for (const { topic } of only ? [] : topics) url.searchParams.append("topic", topic);
  for (const { cursor } of topics) url.searchParams.append("cursor", cursor);
  for (const [key, value] of Object.entries({ ...terms, deltas, ...more, ticket })) {
    if (value) url.searchParams.set(key, value);
  }
  return url;
}
