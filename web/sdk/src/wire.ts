/**
 * What a server says (docs/wire.md), as it is after `JSON.parse`, and the grammar of
 * positions. Pure.
 */

/**
 * Everything up to and including an event: `EPOCH.OFFSET`, e.g. `9f3c21.1042`. It holds across
 * transports and sessions, until the server loses the topic's history and begins a new epoch.
 */
export type Position = string;

/**
 * Where a subscription starts: with what is published from now on (`latest`), with all that
 * the server retains (`earliest`), with the newest events of that (`newest.50`, at most 10,000), or
 * after a position.
 */
export type Cursor = "latest" | "earliest" | `newest.${number}` | Position;

/** Where a subscription starts: a cursor, or the newest events by their number, 1 to 10,000. */
export type Start =
  | Cursor
  | {
      /** How many of them. */
      newest: number;
    };

/**
 * Events of a topic. The first one of each topic confirms the subscription: it has no events,
 * and its position is where the subscription starts.
 */
export interface Envelope {
  /** The topic of the events. */
  topic: string;
  /** The position of the last event. */
  position: Position;
  /** The offset of the first event. */
  first: number;
  /**
   * The offset of the event before the first, if that is not `first` − 1: those between were never
   * given. Who has not got everything up to it has missed something.
   */
  after?: number;
  /**
   * Of a value topic: the offset of the version that this one replaces here; 0 if there was
   * none. Its one event is the newest version, and nothing is missing, however far it jumps.
   */
  previous?: number;
  /** The offset of each event, if they are not consecutive. */
  offsets?: number[];
  /** In order. */
  events: unknown[];
}

/**
 * Events that this subscriber will not get.
 *
 * | `reason` | when |
 * |---|---|
 * | `slow` | the subscriber fell behind the events that the server retains |
 * | `trimmed` | the server no longer retained them when the subscription began, or resumed |
 * | `epoch` | the server lost the topic's history |
 * | `unknown` | of a value topic: the server does not have the newest version, for instance because it was restarted. Nobody knows whether the last one that came is the newest, until the next one comes |
 * | `unannounced` | events are missing, and the server has not said why |
 */
export interface Gap {
  /** How many events; `null` if that cannot be known: after `epoch` and `unknown`, and where offsets are not consecutive. */
  missed: number | null;
  /** As in the table above. */
  reason: string;
}

/** Why a topic has ended. */
export interface Ended {
  /** `deleted` (a publisher deleted it), `gone` (it is fetched, and there is no such thing), `forbidden` (the page's next token gives no right to it), `slow` or `trimmed` (events are missing, and the policy is `close`), or another. */
  code: string;
  /** In words. */
  reason: string;
}

/** Why a server ended a connection. */
export interface Close {
  /** A close code, as a WebSocket's; docs/wire.md lists them. */
  code: number;
  /** In words. */
  reason: string;
  /** Whether the client shall reconnect. If not, the session is closed. */
  reconnect: boolean;
  /** In a stream of columns, where no message about a topic has a place: why its topic has ended. */
  end?: Ended | undefined;
}

/**
 * One message of the server, of any kind. Which members it has says of which kind it is.
 *
 * | members | when |
 * |---|---|
 * | those of an {@link Envelope} | events were published, or a subscription is confirmed |
 * | `topic`, `position`, `gap` | events are missed, before those that follow |
 * | `topic`, `position`, `end` | the topic has ended, after all that it had |
 * | `heartbeat` | nothing else was sent for a while |
 * | `close` | the server ends the connection; the last message |
 * | `answer` or `error` | a command has been carried out, or has not |
 * | `ticket` | in the response to `POST /v1/tickets` |
 */
export interface Message extends Partial<Envelope> {
  /** Of a value topic, in place of `events`: a JSON Patch (RFC 6902). It comes only if it was asked for. */
  patch?: unknown[];
  /** Events that are missed; with `topic` and `position`. */
  gap?: Gap;
  /** Why the topic has ended; with `topic` and `position`. */
  end?: Ended;
  /** An empty object: the connection is alive. */
  heartbeat?: object;
  /** Why the connection ends. */
  close?: Close;
  /** The result of a command. */
  answer?: Answer;
  /** Why a command or a request was refused. */
  error?: Refusal;
  /** Stands for a token in the URL of one connection. */
  ticket?: string;
}

/** The result of a command; which members it has depends on the command. */
export interface Answer {
  /** The `id` of the command. */
  id?: number;
  /** How long the token lasts that a connection was given, s; missing if it does not end. */
  expires_in_s?: number;
  /** The topic that was published to, subscribed to or acked. */
  topic?: string;
  /** The position of the last event that was published or acked. */
  position?: Position;
  /** The offset of the first event that was published. */
  first?: number;
  /** How many events were published. */
  count?: number;
  /** The data of an `echo`. */
  data?: unknown;
}

/** Why a command or a request was not carried out. */
export interface Refusal {
  /** The `id` of the command, if the server could read it. */
  id?: number | null;
  /** One of those in docs/wire.md. */
  code: string;
  /** A sentence with the remedy. */
  message: string;
}

/** An epoch and an offset. @internal */
export interface ParsedPosition {
  epoch: string;
  offset: number;
}

const POSITION = /^([1-9a-f][0-9a-f]{0,15})\.(0|[1-9][0-9]{0,15})$/;

/** Takes a position apart; `null` if it is none. @internal */
export function parsePosition(position: string): ParsedPosition | null {
  const found = POSITION.exec(position);
  const offset = Number(found?.[2]);
  return found?.[1] && offset <= Number.MAX_SAFE_INTEGER ? { epoch: found[1], offset } : null;
}

const TOPIC = /^(?!.{201})(?!(.*\/)?\.{1,2}(\/|$))[\w.~@:|+=-]+(\/[\w.~@:|+=-]+)*$/;

/** Whether this is in the grammar of topics. @internal */
export function isTopic(topic: string): boolean {
  return TOPIC.test(topic);
}

const START = /^(latest|earliest|newest\.([1-9]\d{0,3}|10000))$/;

/** Path of a topic: no path may have `|` (RFC 3986). @internal */
export function topicPath(topic: string): string {
  return `v1/topics/${topic.replaceAll("|", "%7C")}`;
}

/** The cursor of a start. @internal */
export function cursorOf(start: Start = "latest"): Cursor {
  return typeof start === "string" ? start : `newest.${start.newest}`;
}

/** Whether this says where to begin. @internal */
export function isCursor(cursor: string): boolean {
  return START.test(cursor) || parsePosition(cursor) !== null;
}

/** A number with its unit; 0 is left out. @internal */
export function quantity(value: number, unit: string): string | undefined {
  return value ? value + unit : undefined;
}

/** Whether a client that does not know a close code comes back. @internal */
export function reconnects(code: number): boolean {
  return /^(100[156]|101[1-4]|4[0-4])/.test(`${code}`);
}
