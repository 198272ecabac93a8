/**
 * What a transport is: from a plan to messages, and nothing else. It neither reconnects
 * nor judges itself; whoever opened it does.
 */

import type { Close, Cursor, Refusal } from "../wire.js";

/** A topic, and where one is in it. */
export interface TopicCursor {
  /** What it is called. */
  readonly topic: string;
  /** Behind what has been received. */
  readonly cursor: Cursor;
}

/** What a connection is to carry. */
export interface ConnectPlan {
  /** Where the server's `/v1` is. */
  base: URL;
  /**
   * In order, each with where it is: as long as the connection lasts, that moves. A
   * two-way transport does without: it is told by commands.
   */
  topics: readonly TopicCursor[];
  /** Parameters of the connection: `policy` and `interval`. */
  terms: Readonly<Record<string, string | undefined>>;
  /** Presented in a header where there are headers. */
  token: string | null;
  /** Stands for the token where there are none. */
  ticket: string | null | undefined;
  /** The one to use. */
  fetch: typeof fetch;
}

/** Where a connection puts what comes. After {@link Link.close} they do nothing. */
export interface TransportHandlers {
  /** It can be spoken to. Two-way transports only. */
  opened(): void;
  /** A message as JSON; whatever is none ends the connection. */
  text(text: string): void;
  /** Nothing comes after it; then {@link Link.close} is called. */
  ended(end: End): void;
  /** What to wait for before more is read, where a transport can. */
  drained(): Promise<void>;
}

/** How a connection ended: the server's word, a refusal, or neither: it was cut. */
export interface End {
  /** The server's word. */
  close?: Close;
  /** The status it was refused with, and why. */
  refusal?:
    | {
        /** Of the response. */
        status: number;
        /** What the server said, if it was the server. */
        error?: Refusal | undefined;
      }
    | undefined;
}

/** A connection. */
export interface Link {
  /** Says something to the server, where that is possible. */
  send?(text: string): void;
  /** Ends it, and whatever it holds; also after it has ended by itself. */
  close(): void;
}

/** A way from the server to the page. */
export type TransportName = "websocket" | "http-streaming" | "sse" | "forever-frame" | "long-polling";

/** A way to open one. */
export interface Transport {
  /** What it is called. */
  name: TransportName;
  /** Whether the client can speak: then it subscribes by commands. */
  isTwoWay: boolean;
  /** Whether headers, and so a token, can be set. */
  hasHeaders: boolean;
  /** Whether the server is held back when the page does not keep up. */
  hasBackpressure: boolean;
  /** Whether it exists here, for this server. */
  isSupported(base: URL): boolean;
  /** Opens a connection, whose messages go to `handlers` from now on, and not before it has returned. */
  open(plan: ConnectPlan, handlers: TransportHandlers): Link;
}

/** The URL of a plan. @internal */
export function url(plan: ConnectPlan, more: Readonly<Record<string, string>> = {}): URL {
  const { topics, terms, ticket } = plan;
  const only = topics.length === 1 ? topics[0] : undefined;
  const url = new URL(only ? `v1/topics/${only.topic}` : "v1/topics", plan.base);
  for (const { topic } of only ? [] : topics) url.searchParams.append("topic", topic);
  for (const { cursor } of topics) url.searchParams.append("cursor", cursor);
  for (const [key, value] of Object.entries({ ...terms, ...more, ticket })) {
    if (value) url.searchParams.set(key, value);
  }
  return url;
}
