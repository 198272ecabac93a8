/** Connects a topic to a feed: over a session, or as Arrow columns. A switch between the two keeps the position. */

import {
  type Cursor,
  connect,
  type Policy,
  type Status,
  type Subscription,
  type ThalwegError,
  type TransportName,
} from "thalweg";
import type { ColumnBatch, ColumnStatus, ColumnStream } from "thalweg/arrow";
import { foreverFrame } from "thalweg/forever-frame";
import { sentence, token } from "../server.js";
import { receivedColumns } from "./arrow-events.js";
import { received } from "./events.js";
import { Feed } from "./feed.js";
import { Refused, topicOf } from "./query.js";
import { isKeyed } from "./rows.js";
import { columnNames, hasKeys, type Topic, topic } from "./topics.js";
import { Volume } from "./volume.js";

/** A way to receive a topic: over a transport of a session, or as columns. */
export type LiveTransport = TransportName | "arrow";

/** The options of the menu. `null` selects the best transport that works, and columns for high volume. */
export const LIVE_TRANSPORTS: readonly (LiveTransport | null)[] = [
  null,
  "websocket",
  "http-streaming",
  "sse",
  "forever-frame",
  "long-polling",
  "arrow",
];

export interface LiveStatus extends Omit<Status, "transport"> {
  readonly transport: LiveTransport | null;
}

type Arrow = typeof import("thalweg/arrow");

/**
 * If the history has more than `SMALL_HISTORY` events, the page requests its newer half, at most
 * `PAST_EVENTS_MAX` events: the oldest events may be deleted before the request arrives. If offsets are
 * sparse, the page gets fewer events.
 */
const PAST_EVENTS_MAX = 20_000;
const SMALL_HISTORY = 10_000;

/** A page that has fallen behind the history continues with the newest events. */
const POLICY: Policy = "latest";

/**
 * Error codes that mean that the server has forgotten a query: its topic has ended (`gone`), or the
 * connection was closed because its only topic has ended (`close_4500`).
 */
const FORGOTTEN = ["gone", "close_4500"];
const AGAIN_MS = 1000;

/** The server's figures of a topic. */
export interface Told {
  /** Number of events between this page and the newest event; `null` if it is unknown. */
  readonly lag: number | null;
  readonly subscribers: number | null;
}

export const UNKNOWN: Told = { lag: null, subscribers: null };

export class Live {
  readonly feed = new Feed();
  status: LiveStatus = { state: "connecting", transport: null, reason: null };
  /** The reason why the topic has ended for good. */
  failure: string | null = null;
  readonly #topic: string;
  /** The query whose rows the topic has. */
  readonly #query: string | null;
  readonly #session = connect(".", {
    token,
    onStatus: (status) => {
      if (!this.#columns) this.status = status;
    },
  });
  #transport: LiveTransport | null;
  /** At most one of this and `#columns` is set. */
  #subscription: Subscription<unknown> | null = null;
  #columns: ColumnStream | null = null;
  #arrow: Arrow | null = null;
  /** Whether the server refused columns. Then only the reader can select them again. */
  #isRefused = false;
  #volume = new Volume();
  /** The newest position when the page opened. */
  #head: string | null = null;
  /** The position of the last received event; `null` before the start is known. */
  #cursor: Cursor | null = null;
  /** Whether the server has named columns, and the epoch of the last request for names. */
  #isNamed = false;
  #namedEpoch = "";
  #isClosed = false;

  constructor(name: string, transport: LiveTransport | null, query: string | null = null) {
    this.#topic = name;
    this.#query = query;
    this.#transport = transport;
    if (transport && transport !== "arrow") this.#prefer(transport);
    start(name).then(
      ({ from, head }) => this.#begin(from, head),
      () => this.#begin("earliest", null),
    );
  }

  /** Switches the transport while data flows. */
  use(transport: LiveTransport | null): void {
    this.#transport = transport;
    this.#isRefused = false;
    if (this.#isClosed || this.status.state === "closed") return;
    if (transport !== "arrow") this.#prefer(transport);
    if (this.#cursor !== null) this.#receive();
  }

  /** Returns the server's figures of the topic; `UNKNOWN` if it does not tell them. */
  async told(): Promise<Told> {
    const known = this.failure === null ? await topic(this.#topic) : null;
    if (!known) return UNKNOWN;
    const here = (this.#columns ?? this.#subscription)?.position;
    const lag = known.position && here ? between(here, known.position, this.feed.isSparse) : null;
    return { lag, subscribers: known.subscribers };
  }

  reconnect(): void {
    if (this.#columns) this.#columns.reconnect();
    else if (this.#session.status.state !== "closed") this.#session.reconnect();
  }

  close(): void {
    this.#isClosed = true;
    this.#columns?.close();
    this.#session.close();
  }

  #prefer(transport: TransportName | null): void {
    this.#session.use(transport === "forever-frame" ? foreverFrame : transport);
  }

  #begin(from: Cursor, head: string | null): void {
    this.#cursor = from;
    this.#head = head;
    if (head) this.#name(head);
    this.#receive();
  }

  #receive(): void {
    if (this.#transport === "arrow") void this.#load();
    else this.#subscribe();
  }

  #take(batch: Parameters<Feed["take"]>[0]): void {
    this.#cursor = batch.position;
    if (batch.events.length) this.#name(batch.position);
    this.feed.take(batch, Date.now(), this.#head !== null && isBefore(batch.position, this.#head));
  }

  /** Requests the names of columns, once per epoch until the server has names. */
  #name(position: string): void {
    const [epoch = ""] = position.split(".");
    if (this.#isNamed || this.#namedEpoch === epoch) return;
    this.#namedEpoch = epoch;
    const take = (names: string[]): void => {
      this.#isNamed ||= names.length > 0;
      if (names.length) this.feed.columns.rename(names);
    };
    // Without an answer the columns keep numbers as names.
    columnNames(this.#topic).then(take, () => {});
  }

  #subscribe(): void {
    this.#columns?.close();
    this.#columns = null;
    if (this.#isClosed || this.#subscription) return;
    this.#volume = new Volume();
    this.#receiveEvents().catch((error: unknown) => this.#ended(error));
  }

  /** Receives until the subscription is closed. @throws ThalwegError when the topic or the session ends. */
  async #receiveEvents(): Promise<void> {
    this.#subscription = this.#session.subscribe(this.#topic, { from: this.#cursor as Cursor, policy: POLICY });
    for await (const batch of this.#subscription) {
      this.#take(received(batch));
      if (this.#isHigh(batch.events.length)) void this.#load();
    }
  }

  #isHigh(count: number): boolean {
    const isHigh = this.#volume.add(count, Date.now());
    return isHigh && this.#transport === null && !this.#isRefused && !this.feed.version && !isKeyed(this.feed.rows);
  }

  /** Switches to columns once the module is loaded; until then the session continues. */
  async #load(): Promise<void> {
    try {
      this.#arrow ??= await import("thalweg/arrow");
    } catch {
      this.#refused();
      return;
    }
    const isWanted = this.#transport === "arrow" || (this.#transport === null && !this.#isRefused);
    if (isWanted && !this.#isClosed && !this.#columns) this.#receiveColumns(this.#arrow);
  }

  #receiveColumns({ columns }: Arrow): void {
    this.#subscription?.close();
    this.#subscription = null;
    let isNamed = false;
    const take = (batch: ColumnBatch): void => {
      if (!isNamed || batch.schemaChanged) this.feed.columns.rename(batch.table.names.slice(1));
      isNamed = true;
      this.#take(receivedColumns(batch, this.feed.columns.all));
    };
    const onStatus = (status: ColumnStatus): void => {
      if (status.state !== "closed") this.status = { ...status, transport: "arrow" };
    };
    const onError = (error: ThalwegError): void => {
      // A refusal has a status. Without one the topic has ended.
      if (error.status === null) this.#ended(error);
      else this.#refused();
    };
    const options = { from: this.#cursor as Cursor, policy: POLICY, token, onStatus, onError };
    this.#columns = columns(".", this.#topic, options, take);
    this.status = { ...this.#columns.status, transport: "arrow" };
  }

  #ended(error: unknown): void {
    if (this.#query !== null && FORGOTTEN.includes((error as ThalwegError).code)) void this.#again(this.#query);
    else this.failure = sentence(error);
  }

  async #again(query: string): Promise<void> {
    this.#subscription = null;
    this.#columns?.close();
    this.#columns = null;
    for (;;) {
      // Behind a load balancer, another server than the one that sends the rows may answer this request, so
      // it may have to be repeated.
      await new Promise((done) => setTimeout(done, AGAIN_MS));
      if (this.#isClosed) return;
      try {
        await topicOf(query);
        break;
      } catch (error) {
        const isOver = error instanceof Refused && error.status < 500;
        if (isOver) this.failure = sentence(error);
        if (isOver) return;
      }
    }
    if (!this.#isClosed) this.#receive();
  }

  /** Continues over the session after a refusal: a value topic, or a server without Arrow. The session reports other errors. */
  #refused(): void {
    this.#isRefused = true;
    this.#subscribe();
  }
}

/** Returns the cursor to start from, and the newest position. */
async function start(name: string): Promise<{ from: Cursor; head: string | null }> {
  const known = await topic(name);
  const from = beginning(known);
  // The state of a keyed topic begins with its oldest event.
  const isAll = from === "earliest" || (await hasKeys(name).catch(() => false));
  return { from: isAll ? "earliest" : from, head: known?.position ?? null };
}

/** Returns the cursor to start from: recent enough that the first events are not dropped at once. */
export function beginning(known: Topic | null): Cursor {
  const [epoch, offset] = known?.position?.split(".") ?? [];
  if (!known || known.events <= SMALL_HISTORY) return "earliest";
  return `${epoch}.${Number(offset) - Math.min(PAST_EVENTS_MAX, Math.floor(known.events / 2))}`;
}

/** Returns the number of events between two positions; `null` if it cannot be derived from them. */
export function between(from: string, to: string, isSparse: boolean): number | null {
  const [epoch, offset] = from.split(".");
  const [otherEpoch, otherOffset] = to.split(".");
  const count = Math.max(0, Number(otherOffset) - Number(offset));
  return epoch !== otherEpoch || (isSparse && count > 0) ? null : count;
}

function isBefore(position: string, other: string): boolean {
  const [epoch, offset] = position.split(".");
  const [otherEpoch, otherOffset] = other.split(".");
  return epoch === otherEpoch && Number(offset) <= Number(otherOffset);
}
