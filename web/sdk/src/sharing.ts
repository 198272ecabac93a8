/**
 * Shared subscriptions: a session subscribes to each topic once, and all subscriptions of the page to that topic
 * share it. Each subscription gets every batch after it has joined, and processes batches at its own speed.
 */

import { checkStart } from "./checks.js";
import { ThalwegError } from "./errors.js";
import type { KeyedListener, KeyedOptions, KeyedSubscription } from "./map.js";
import {
  type AnySubscription,
  type Batch,
  type Changes,
  fill,
  type Listener,
  type SubscribeOptions,
  Subscription,
} from "./subscription.js";
import type { Cursor, Message, Position } from "./wire.js";

/** Tracks the batches that the page has processed. @internal */
export interface Flow {
  /** The page has processed a batch, or a message without events, of this size. */
  processed(shared: SharedSubscription, bytes: number): void;
  /** Sends an ack now, or as soon as there is a position to ack. */
  ack(shared: SharedSubscription): void;
}

/** The part of a session that a shared subscription uses. @internal */
export interface Owner {
  readonly flow: Flow;
  /** The page has subscribed to a new topic. */
  subscribe(shared: SharedSubscription): void;
  /** The last subscription is closed. */
  unsubscribe(shared: SharedSubscription): void;
}

/** A message with its size on the wire, bytes. @internal */
export type HeldMessage = [Message, number];

/**
 * | state | messages | next states |
 * |---|---|---|
 * | `open` | are processed on arrival | a list, with the first patch or map; `closed` |
 * | a list | wait in the list until the module for them has loaded, and count as unprocessed | `open`, `closed` |
 * | `closed` | are dropped: the page has left the topic, or the server has ended it | none |
 *
 * @internal
 */
export type SharedState = "open" | HeldMessage[] | "closed";

/** Changes of a map that the page must not see yet. @internal */
export interface Stage {
  /** The largest received `until`. */
  until: number;
  /** The least received `until`; a message without `until` counts with its offset. */
  least: number;
  /** The newest event of each key; `null` removes the key. */
  readonly entries: Map<string, unknown>;
  /** Whether the entries begin with no keys, and not with the page's map. */
  readonly isFresh: boolean;
}

/** A session's subscription to a topic. @internal */
export class SharedSubscription {
  declare readonly topic: string;
  /** The options of the first subscription. They apply to all. */
  declare readonly options: Readonly<SubscribeOptions>;
  /** The filter of keys, as the query of a URL; empty without one. */
  declare readonly filter: string;
  /** The cursor after the last received message. */
  declare cursor: Cursor;
  /** The position of the last batch that all subscriptions have processed. */
  position: Position | null = null;
  declare version?: unknown;
  /** Number of consecutive patches that did not apply. */
  declare failures?: number;
  /** The newest event of each key, as the page's maps have it after all batches. */
  readonly map = new Map<string, unknown>();
  /** The changes since then. */
  declare stage?: Stage | undefined;
  state: SharedState = "open";
  #received: Position | null = null;
  /** The newest version of a value topic, or the newest batch of a map. */
  #newest: Batch<unknown> | undefined;
  #subscriptions = new Set<AnySubscription>();
  /** Batches that some subscription has not processed yet. The first one has the number `#first`. */
  #pending: Batch<unknown>[] = [];
  #first = 0;
  /**
   * Batches that a subscription has acked. When all subscriptions have processed such a batch, an ack is sent
   * at once.
   */
  #acks = new Set<Batch<unknown>>();
  #owner: Owner;

  constructor(owner: Owner, topic: string, options: SubscribeOptions, cursor: Cursor) {
    this.#owner = owner;
    this.topic = topic;
    this.options = options;
    this.filter = filterOf(options);
    this.cursor = cursor;
  }

  /**
   * Adds a subscription. It begins with the next batch; on a value topic, with the newest version; as a map, with all
   * keys.
   */
  join<T>(from: Cursor, options: SubscribeOptions, listener: Listener<T> | null): Subscription<T> {
    const newest = from === "latest" ? this.#newest : undefined;
    const subscription = new Subscription<T>(
      this,
      options,
      listener,
      newest ? null : this.#received,
      newest ? [{ ...(newest as Batch<T>), gap: null, previous: 0, changed: undefined, ...this.#all() }] : [],
    );
    subscription.next = this.#first + this.#pending.length - (newest ? 1 : 0);
    this.#subscriptions.add(subscription as AnySubscription);
    return subscription;
  }

  /** Returns all keys as the changes of a map. */
  #all() {
    const { map, options } = this;
    return options.isMap && { changed: [...map.keys()], values: [...map.values()], removed: [] };
  }

  fits(from: Cursor, options: SubscribeOptions): boolean {
    const { interval, policy, isMap } = options;
    const { interval: itsInterval = 0, policy: itsPolicy = "skip" } = this.options;
    return (
      isMap === this.options.isMap &&
      filterOf(options) === this.filter &&
      ["latest", this.cursor].includes(from) &&
      (interval ?? itsInterval) === itsInterval &&
      (policy ?? itsPolicy) === itsPolicy
    );
  }

  take(batch: Batch<unknown>): void {
    this.#received = this.cursor = batch.position;
    this.#newest = batch.previous === undefined && !(batch as Partial<Changes>).isWhole ? undefined : batch;
    fill(this.map, batch);
    this.#pending.push(batch);
    // Iterate over a copy: if a listener subscribes, the new subscription must not get this batch.
    for (const subscription of [...this.#subscriptions]) subscription.take(batch);
  }

  /** Records a message without events, which may have moved the cursor. */
  confirm(): void {
    // Until a map is complete, its cursor has more than a position.
    const position = this.cursor.replace(/~.*/, "");
    this.#received = position;
    // If no batch is waiting, everything up to this position counts as processed.
    if (!this.#pending.length) this.position = position;
    for (const subscription of this.#subscriptions) subscription.confirm(position);
  }

  /** Sends an ack as soon as all have processed as much as this subscription has received. */
  ack({ next }: AnySubscription): void {
    const last = this.#pending[next - this.#first - 1];
    if (last) this.#acks.add(last);
    else this.#owner.flow.ack(this);
  }

  leave(subscription: AnySubscription): void {
    this.#subscriptions.delete(subscription);
    if (!this.#subscriptions.size && this.state !== "closed") {
      this.state = "closed";
      this.#owner.unsubscribe(this);
    }
    this.settle();
  }

  /** Ends all subscriptions: closes them, or fails them with an error; `isAlone`: the session continues. */
  end(error: ThalwegError | null, isAlone: boolean): void {
    this.state = "closed";
    for (const subscription of this.#subscriptions) {
      if (error) subscription.fail(error, isAlone);
      else subscription.close();
    }
  }

  /** Releases the batches that all subscriptions have processed. */
  settle(): void {
    for (let batch: Batch<unknown> | undefined; (batch = this.#pending[0]); ) {
      for (const { next } of this.#subscriptions) if (next <= this.#first) return;
      this.#pending.shift();
      this.#first++;
      // Messages after the last batch had no events for the page.
      this.position = this.#pending.length ? batch.position : this.#received;
      this.#owner.flow.processed(this, batch.bytes);
      if (this.#acks.delete(batch)) this.#owner.flow.ack(this);
    }
  }
}

function filterOf({ keys = [], prefix }: SubscribeOptions): string {
  return `${new URLSearchParams([...keys.map((key) => ["key", key]), ...(prefix ? [["prefix", prefix]] : [])])}`;
}

/** Subscribes to a topic, and shares an existing subscription to it. @internal @throws ThalwegError */
export function subscribe<T>(
  topics: Map<string, SharedSubscription>,
  owner: Owner,
  topic: string,
  options: SubscribeOptions,
  listener: Listener<T> | null,
): Subscription<T> {
  const from = checkStart(topic, options.from);
  if (options.isMap && from !== "latest") {
    throw new ThalwegError("bad_cursor", "a map begins with all keys: omit from");
  }
  if ((options.keys ?? options.prefix) !== undefined && !filterOf(options)) {
    throw new ThalwegError("bad_key", "keys or prefix is empty: omit it to get all keys");
  }
  let shared = topics.get(topic);
  if (!shared) {
    shared = new SharedSubscription(owner, topic, options, from);
    owner.subscribe(shared);
    topics.set(topic, shared);
  } else if (!shared.fits(from, options)) {
    throw new ThalwegError(
      "already_subscribed",
      `already subscribed to ${topic} with other options: omit options, use another session or read over HTTP`,
    );
  }
  return shared.join(from, options, listener);
}

/** Subscribes to a keyed topic as a map. @internal @throws ThalwegError */
export function subscribeMap<T>(
  topics: Map<string, SharedSubscription>,
  owner: Owner,
  topic: string,
  options: KeyedOptions,
  listener: KeyedListener | null,
): KeyedSubscription<T> {
  const shared = subscribe<T>(topics, owner, topic, { ...options, isMap: true }, listener as Listener<T> | null);
  return shared as unknown as KeyedSubscription<T>;
}
