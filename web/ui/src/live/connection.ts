/**
 * A topic and how it is received, and a feed: over a session, or as columns of Arrow, of which one
 * goes on where the other was.
 */

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
import { columnNames, type Topic, topic } from "./topics.js";
import { Volume } from "./volume.js";

/** How a topic comes: over a transport of a session, or as columns. */
export type Way = TransportName | "arrow";

/** What can be chosen; `null` is the best that works: columns where much comes. */
export const WAYS: readonly (Way | null)[] = [
  null,
  "websocket",
  "http-streaming",
  "sse",
  "forever-frame",
  "long-polling",
  "arrow",
];

export interface LiveStatus extends Omit<Status, "transport"> {
  readonly transport: Way | null;
}

type Arrow = typeof import("thalweg/arrow");

/**
 * Of what was before, so many events are asked for at most, and of more than a few at most
 * the newer half: the oldest may be gone by the time that they are asked for. Where offsets are not
 * consecutive it is fewer: so many offsets.
 */
const BEFORE = 20_000;
const FEW = 10_000;

/** A page that has fallen off the history wants what is new, not what is old. */
const POLICY: Policy = "latest";

/** The end of a query's rows, and that of a connection without another topic: the server has forgotten the query. */
const FORGOTTEN = ["gone", "close_4500"];
/** How long the page waits before it asks for the query again, ms. */
const AGAIN_MS = 1000;

export class Live {
  readonly feed = new Feed();
  status: LiveStatus = { state: "connecting", transport: null, reason: null };
  /** Why nothing comes any more, for good. */
  failure: string | null = null;
  readonly #topic: string;
  /** The query whose rows they are. */
  readonly #query: string | null;
  readonly #session = connect(".", {
    token,
    onStatus: (status) => {
      if (!this.#columns) this.status = status;
    },
  });
  #way: Way | null;
  /** One of these two. */
  #subscription: Subscription<unknown> | null = null;
  #columns: ColumnStream | null = null;
  /** What receives columns, once it is loaded. */
  #arrow: Arrow | null = null;
  /** Whether columns were refused: then they are asked for by hand alone. */
  #isRefused = false;
  #volume = new Volume();
  /** Where the topic was before. */
  #head: string | null = null;
  /** Behind what has come; `null` before it is known where to begin. */
  #cursor: Cursor | null = null;
  /** Whether the server has named columns, and of which epoch it was last asked that. */
  #isNamed = false;
  #namedEpoch = "";
  #isClosed = false;

  constructor(name: string, way: Way | null, query: string | null = null) {
    this.#topic = name;
    this.#query = query;
    this.#way = way;
    if (way && way !== "arrow") this.#prefer(way);
    topic(name).then(
      (known) => this.#begin(beginning(known), known?.position ?? null),
      () => this.#begin("earliest", null),
    );
  }

  /** Changes the way while data flows. */
  use(way: Way | null): void {
    this.#way = way;
    this.#isRefused = false;
    if (this.#isClosed || this.status.state === "closed") return;
    if (way !== "arrow") this.#prefer(way);
    if (this.#cursor !== null) this.#receive();
  }

  /** Events between here and the newest one; `null` if that cannot be known. */
  async lag(): Promise<number | null> {
    if (this.failure !== null) return null;
    const newest = (await topic(this.#topic))?.position;
    const here = (this.#columns ?? this.#subscription)?.position;
    return newest && here ? between(here, newest, this.feed.isSparse) : null;
  }

  /** Connects at once, where it waits for its next attempt. */
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

  /** @param head - where the topic was before. */
  #begin(from: Cursor, head: string | null): void {
    this.#cursor = from;
    this.#head = head;
    if (head) this.#name(head);
    this.#receive();
  }

  #receive(): void {
    if (this.#way === "arrow") void this.#load();
    else this.#subscribe();
  }

  #take(batch: Parameters<Feed["take"]>[0]): void {
    this.#cursor = batch.position;
    if (batch.events.length) this.#name(batch.position);
    this.feed.take(batch, Date.now(), this.#head !== null && isBefore(batch.position, this.#head));
  }

  /** Asks what the columns are called; once in each epoch, until there is something. */
  #name(position: string): void {
    const [epoch = ""] = position.split(".");
    if (this.#isNamed || this.#namedEpoch === epoch) return;
    this.#namedEpoch = epoch;
    const take = (names: string[]): void => {
      this.#isNamed ||= names.length > 0;
      if (names.length) this.feed.columns.rename(names);
    };
    // Without an answer they have numbers.
    columnNames(this.#topic).then(take, () => {});
  }

  /** Receives over the session, from where it is. */
  #subscribe(): void {
    this.#columns?.close();
    this.#columns = null;
    if (this.#isClosed || this.#subscription) return;
    this.#volume = new Volume();
    this.#receiveEvents().catch((error: unknown) => this.#ended(error));
  }

  /** Until it is closed. @throws ThalwegError when the server, or the name, allows no more. */
  async #receiveEvents(): Promise<void> {
    this.#subscription = this.#session.subscribe(this.#topic, { from: this.#cursor as Cursor, policy: POLICY });
    for await (const batch of this.#subscription) {
      this.#take(received(batch));
      if (this.#isHigh(batch.events.length)) void this.#load();
    }
  }

  /** Whether so much comes that columns are better, and may be had. */
  #isHigh(count: number): boolean {
    const isHigh = this.#volume.came(count, Date.now());
    return isHigh && this.#way === null && !this.#isRefused && !this.feed.version;
  }

  /** Changes to columns as soon as it is known how to receive them; until then the session goes on. */
  async #load(): Promise<void> {
    try {
      this.#arrow ??= await import("thalweg/arrow");
    } catch {
      this.#refused();
      return;
    }
    const isWanted = this.#way === "arrow" || (this.#way === null && !this.#isRefused);
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
      // What was not refused has come to its end.
      if (error.status === null) this.#ended(error);
      else this.#refused();
    };
    const options = { from: this.#cursor as Cursor, policy: POLICY, token, onStatus, onError };
    this.#columns = columns(".", this.#topic, options, take);
    this.status = { ...this.#columns.status, transport: "arrow" };
  }

  /** Nothing more comes. */
  #ended(error: unknown): void {
    if (this.#query !== null && FORGOTTEN.includes((error as ThalwegError).code)) void this.#again(this.#query);
    else this.failure = sentence(error);
  }

  /** Has the server make the query's rows again, and goes on with them. */
  async #again(query: string): Promise<void> {
    this.#subscription = null;
    this.#columns?.close();
    this.#columns = null;
    for (;;) {
      // Where several servers answer, another one may be asked than the one that is read.
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

  /** There are no columns: of a value topic, or of this server. What else is wrong the session finds as well. */
  #refused(): void {
    this.#isRefused = true;
    this.#subscribe();
  }
}

/** Where to begin, so that there is something to see and nothing that would make room at once. */
export function beginning(known: Topic | null): Cursor {
  const [epoch, offset] = known?.position.split(".") ?? [];
  if (!known || known.events <= FEW) return "earliest";
  return `${epoch}.${Number(offset) - Math.min(BEFORE, Math.floor(known.events / 2))}`;
}

/** Events from one position to another; `null` if positions do not say it. */
export function between(from: string, to: string, isSparse: boolean): number | null {
  const [epoch, offset] = from.split(".");
  const [otherEpoch, otherOffset] = to.split(".");
  const count = Math.max(0, Number(otherOffset) - Number(offset));
  return epoch !== otherEpoch || (isSparse && count > 0) ? null : count;
}

/** Whether a position is another or what comes before it. */
function isBefore(position: string, other: string): boolean {
  const [epoch, offset] = position.split(".");
  const [otherEpoch, otherOffset] = other.split(".");
  return epoch === otherEpoch && Number(offset) <= Number(otherOffset);
}
