/** Messages of a server (docs/reference/messages.md) after `JSON.parse`, and the syntax of positions. Pure. */

/**
 * A place in a topic, directly after an event: `EPOCH.OFFSET`, e.g. `9f3c21.1042`. A position is valid across
 * transports and sessions, until the server loses the topic's history and begins a new epoch.
 */
export type Position = string;

/**
 * The start of a subscription: events published from now on (`latest`), all retained events (`earliest`), the newest
 * retained events (`newest.50`, at most 10,000), the events published since a time in ms since 1970
 * (`since.1764437000000`), or the events after a position.
 */
export type Cursor = "latest" | "earliest" | `newest.${number}` | `since.${number}` | Position;

/** The start of a subscription: a cursor, a number of newest events (1 to 10,000), or a time. */
export type Start =
  | Cursor
  | {
      /** The number of events. */
      newest: number;
    }
  | {
      /** The time of the first event, in ms since 1970, such as `Date.now() - 600_000`. */
      since: number;
    };

/**
 * Events of a topic. The first envelope of each topic confirms the subscription: it has no events, and its position
 * is the start of the subscription.
 */
export interface Envelope {
  /** The topic of the events. */
  topic: string;
  /** The position of the last event. */
  position: Position;
  /** The offset of the first event. */
  first: number;
  /**
   * The offset of the event before the first, if it is not `first` − 1: the offsets in between were never assigned. A
   * subscriber that has not received all events up to this offset has missed some.
   */
  after?: number;
  /**
   * On a value topic: the offset of the version that this one replaces for the subscriber; 0 without one. The single
   * event is the newest version, and no event is missing, however far the offset jumps.
   */
  previous?: number;
  /**
   * On a keyed topic: the offset of the topic's newest event, if this message ends before it. Until a
   * subscriber reaches this offset, it may lack events of some keys.
   */
  until?: number;
  /** The offset of each event, if they are not consecutive. */
  offsets?: number[];
  /** On a keyed topic: the key of each event. The event `null` removes its key. */
  keys?: string[];
  /** The events, in order. */
  events: unknown[];
}

/**
 * Events that this subscriber will not receive.
 *
 * | `reason` | when |
 * |---|---|
 * | `slow` | the subscriber fell behind the retained events |
 * | `trimmed` | the server no longer retained the events when the subscription began or resumed |
 * | `epoch` | the server lost the topic's history |
 * | `trimmed`, on a keyed topic | the server no longer knows which keys were removed since the subscription's position: all keys follow |
 * | `unknown` | on a value topic: the server does not have the newest version, for example because it was restarted. Until the next version arrives, the last one may be outdated |
 * | `unannounced` | events are missing, and the server gave no reason |
 */
export interface Gap {
  /** The number of events; `null` if it is unknown: after `epoch` and `unknown`, and where offsets are not consecutive. */
  missed: number | null;
  /** A reason of the table above. */
  reason: string;
}

/** The reason why a topic has ended. */
export interface Ended {
  /** `deleted` (a publisher deleted it), `gone` (its upstream no longer has it), `forbidden` (the page's next token grants no right to it), `slow` or `trimmed` (events are missing, and the policy is `close`), or another code. */
  code: string;
  /** The reason in words. */
  reason: string;
}

/** The reason why a server closed a connection. */
export interface Close {
  /** A WebSocket close code; see docs/reference/errors.md. */
  code: number;
  /** The reason in words. */
  reason: string;
  /** Whether the client should reconnect. If not, the session is closed. */
  reconnect: boolean;
  /** In a stream of columns, which has no messages about its topic: the reason why the topic has ended. */
  end?: Ended | undefined;
}

/**
 * A message of the server. Its members determine its kind.
 *
 * | members | when |
 * |---|---|
 * | those of an {@link Envelope} | events were published, or a subscription is confirmed |
 * | `topic`, `position`, `gap` | events are missing before those that follow |
 * | `topic`, `position`, `end` | the topic has ended; all of its events were sent |
 * | `heartbeat` | no other message was sent for a while |
 * | `close` | the server closes the connection; the last message |
 * | `answer` or `error` | the result of a command, or the reason why it failed |
 * | `ticket` | in the response to `POST /v1/tickets` |
 */
export interface Message extends Partial<Envelope> {
  /** On a value topic, in place of `events`: a JSON Patch (RFC 6902). Only clients that request patches get it. */
  patch?: unknown[];
  /** Missed events; with `topic` and `position`. */
  gap?: Gap;
  /** The reason why the topic has ended; with `topic` and `position`. */
  end?: Ended;
  /** An empty object: the connection is alive. */
  heartbeat?: object;
  /** The reason why the connection closes. */
  close?: Close;
  /** The result of a command. */
  answer?: Answer;
  /** The reason why a command or a request was rejected. */
  error?: Refusal;
  /** Beside the error `condition_failed`: the newest event of the key, if it has one and the client may read it. */
  newest?: Newest;
  /** Replaces a token in the URL of one connection. */
  ticket?: string;
}

/** The result of a command. Its members depend on the command. */
export interface Answer {
  /** The `id` of the command. */
  id?: number;
  /** The lifetime of the connection's new token, s; missing if it does not expire. */
  expires_in_s?: number;
  /** The topic that was published to, subscribed to or acked. */
  topic?: string;
  /** The position of the last event that was published or acked. */
  position?: Position;
  /** The offset of the first event that was published. */
  first?: number;
  /** The number of published events. */
  count?: number;
  /** The data of an `echo`. */
  data?: unknown;
}

/** The newest event of a key. */
export interface Newest {
  /** The position of the event. A publish with this position as `if` succeeds only if no other event has come since. */
  position: Position;
  /** The event. */
  event: unknown;
}

/** The reason why a command or a request was rejected. */
export interface Refusal {
  /** The `id` of the command, if the server could read it. */
  id?: number | null;
  /** A code of docs/reference/errors.md. */
  code: string;
  /** A sentence with the remedy. */
  message: string;
}

/** An epoch and an offset. @internal */
export interface ParsedPosition {
  epoch: string;
  offset: number;
}

/** A position. The cursor of an incomplete map also has the least `until` received. */
const POSITION = /^([1-9a-f][0-9a-f]{0,15})\.(0|[1-9][0-9]{0,15})(?:~\d+)?$/;

/** Parses a position; returns `null` for other texts. @internal */
export function parsePosition(position: string): ParsedPosition | null {
  const found = POSITION.exec(position);
  const offset = Number(found?.[2]);
  return found?.[1] && offset <= Number.MAX_SAFE_INTEGER ? { epoch: found[1], offset } : null;
}

/** Returns the path of a topic. A path must not contain `|` (RFC 3986). @internal */
export function topicPath(topic: string): string {
  return `v1/topics/${topic.replaceAll("|", "%7C")}`;
}

/** Returns the cursor of a start. @internal */
export function cursorOf(start: Start = "latest"): Cursor {
  return typeof start === "string" ? start : (Object.entries(start)[0] as unknown[]).join(".");
}

/** Returns a number with its unit; `undefined` for 0. @internal */
export function quantity(value: number, unit: string): string | undefined {
  return value ? value + unit : undefined;
}

/** Returns whether a client should reconnect after this close code. For unknown codes the range decides. @internal */
export function reconnects(code: number): boolean {
  return /^(100[156]|101[1-4]|4[0-4])/.test(`${code}`);
}
