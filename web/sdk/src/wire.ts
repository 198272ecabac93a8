/**
 * What a server says (docs/wire.md), as it is after `JSON.parse`, and the grammar of
 * positions. Pure.
 */

/** Everything up to and including an event: `EPOCH.OFFSET`. */
export type Position = string;

/** Where a subscription starts: after everything there is, before it, or after a position. */
export type Cursor = "latest" | "earliest" | Position;

/** Consecutive events of a topic. Without events it confirms a subscription. */
export interface Envelope {
  /** Whose events these are. */
  topic: string;
  /** Of the last event. */
  position: Position;
  /** Offset of the first event. */
  first: number;
  /** One for each event, where they are not consecutive. */
  offsets?: number[];
  /** In order. */
  events: unknown[];
}

/** Events that this subscriber will not get. */
export interface Gap {
  /** How many; `null` where it cannot be known. */
  missed: number | null;
  /** `slow`, `trimmed` or `epoch`; `unannounced` where the server did not say so. */
  reason: string;
}

/** Why a server ended a connection. */
export interface Close {
  /** As of a WebSocket. */
  code: number;
  /** In words. */
  reason: string;
  /** Whether to come back. */
  reconnect: boolean;
}

/** One message, whichever it is. */
export interface Message extends Partial<Envelope> {
  /** With `topic` and `position`, instead of events. */
  gap?: Gap;
  /** There is nothing to say. */
  heartbeat?: object;
  /** The last message. */
  close?: Close;
  /** To a command. */
  answer?: Answer;
  /** To a command or a request. */
  error?: Refusal;
  /** To a request for one. */
  ticket?: string;
}

/** To a command. */
export interface Answer {
  /** The command's. */
  id?: number;
  /** What was published to, subscribed to or acked. */
  topic?: string;
  /** Of the last event published, or acked. */
  position?: Position;
  /** Offset of the first event published. */
  first?: number;
  /** How many were published. */
  count?: number;
  /** What comes back. */
  data?: unknown;
}

/** To a command or a request that is not carried out. */
export interface Refusal {
  /** The command's. */
  id?: number | null;
  /** One of docs/wire.md. */
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

const TOPIC = /^(?!.{201})(?!(.*\/)?\.{1,2}(\/|$))[\w.~-]+(\/[\w.~-]+)*$/;

/** Whether this is in the grammar of topics; if so it can stand in a URL as it is. @internal */
export function isTopic(topic: string): boolean {
  return TOPIC.test(topic);
}

/** Whether this says where to begin. @internal */
export function isCursor(cursor: string): boolean {
  return cursor === "latest" || cursor === "earliest" || parsePosition(cursor) !== null;
}

/** Whether a client that does not know a close code comes back. @internal */
export function reconnects(code: number): boolean {
  return /^(100[156]|101[1-4]|4[0-4])/.test(`${code}`);
}
