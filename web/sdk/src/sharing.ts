/**
 * A session subscribes to each topic once. All subscriptions of a page to that topic share it:
 * each gets every batch that comes after it has joined, and processes it in its own time. The bytes
 * of a batch count as processed when the slowest of them has processed it or thrown it away.
 */

import { ThalwegError } from "./errors.js";
import {
  type AnySubscription,
  type Batch,
  type Listener,
  type SubscribeOptions,
  Subscription,
} from "./subscription.js";
import { type Cursor, cursorOf, isCursor, type Message, type Position } from "./wire.js";

/** A session, as a shared subscription sees it. @internal */
export interface Owner {
  /** The page has subscribed to a topic that it did not have. */
  subscribe(shared: SharedSubscription): void;
  /** The bytes of a batch, or of a message without events, no longer wait. */
  processed(shared: SharedSubscription, bytes: number): void;
  ack(shared: SharedSubscription): void;
  /** The last subscription is closed. */
  unsubscribe(shared: SharedSubscription): void;
}

/** @internal */
export class SharedSubscription {
  declare readonly topic: string;
  /** Those of the first subscription: its terms hold for all. */
  declare readonly options: Readonly<SubscribeOptions>;
  /** After everything that has been received. */
  declare cursor: Cursor;
  /** The position of the last batch that all have processed. */
  position: Position | null = null;
  declare version?: unknown;
  /** How many patches in a row did not apply. */
  declare failures?: number;
  /** Messages that wait until patches can be applied. */
  declare held: [Message, number][] | undefined;
  /** Whether the page has left it or the server has ended it. */
  isOver = false;
  #received: Position | null = null;
  /** The newest version of a value topic. */
  #newest: Batch<unknown> | undefined;
  #subscriptions = new Set<AnySubscription>();
  /** Batches that a subscription has not processed yet; the first of them has the number `#first`. */
  #pending: Batch<unknown>[] = [];
  #first = 0;
  /** Batches to ack at once when all have processed them. */
  #acks = new Set<Batch<unknown>>();
  #owner: Owner;

  constructor(owner: Owner, topic: string, options: SubscribeOptions) {
    this.#owner = owner;
    this.topic = topic;
    this.options = options;
    this.cursor = cursorOf(options.from);
  }

  /** Adds a subscription. It begins with the next batch, and on a value topic with the newest version. */
  join<T>(options: SubscribeOptions, listener: Listener<T> | null): Subscription<T> {
    const newest = cursorOf(options.from) === "latest" ? this.#newest : undefined;
    const subscription = new Subscription<T>(
      this,
      options,
      listener,
      newest ? null : this.#received,
      newest ? [{ ...(newest as Batch<T>), gap: null, previous: 0, changed: undefined }] : [],
    );
    subscription.next = this.#first + this.#pending.length - (newest ? 1 : 0);
    this.#subscriptions.add(subscription as AnySubscription);
    return subscription;
  }

  /** Whether a subscription with these options can share this one. */
  fits({ from, interval, policy }: SubscribeOptions): boolean {
    const { interval: itsInterval = 0, policy: itsPolicy = "skip" } = this.options;
    return (
      ["latest", this.cursor].includes(cursorOf(from)) &&
      (interval ?? itsInterval) === itsInterval &&
      (policy ?? itsPolicy) === itsPolicy
    );
  }

  /** Gives a batch to all. */
  take(batch: Batch<unknown>): void {
    this.#received = this.cursor = batch.position;
    this.#newest = batch.previous === undefined ? undefined : batch;
    this.#pending.push(batch);
    // A listener may subscribe: this batch is not for that subscription.
    for (const subscription of [...this.#subscriptions]) subscription.take(batch);
  }

  /** Takes note of a message without events: it may have moved the cursor. */
  confirm(): void {
    this.#received = this.cursor;
    // If no batch waits, a confirmation is as good as a batch that has been processed.
    if (!this.#pending.length) this.position = this.cursor;
    for (const subscription of this.#subscriptions) subscription.confirm(this.cursor);
  }

  /** Sends an ack as soon as all have processed what this subscription has. */
  ack({ next }: AnySubscription): void {
    const last = this.#pending[next - this.#first - 1];
    if (last) this.#acks.add(last);
    else this.#owner.ack(this);
  }

  /** A subscription is closed, and its batches are thrown away. */
  leave(subscription: AnySubscription): void {
    this.#subscriptions.delete(subscription);
    if (!this.#subscriptions.size && !this.isOver) {
      this.isOver = true;
      this.#owner.unsubscribe(this);
    }
    this.settle();
  }

  /** Ends all subscriptions: closes them, or fails them with an error; `isAlone`: the session goes on. */
  end(error: ThalwegError | null, isAlone: boolean): void {
    this.isOver = true;
    for (const subscription of this.#subscriptions) {
      if (error) subscription.fail(error, isAlone);
      else subscription.close();
    }
  }

  /** Lets go of the batches that all have processed. */
  settle(): void {
    const isDone = (): boolean => [...this.#subscriptions].every(({ next }) => next > this.#first);
    for (let batch: Batch<unknown> | undefined; isDone() && (batch = this.#pending.shift()); ) {
      this.#first++;
      this.position = batch.position;
      this.#owner.processed(this, batch.bytes);
      if (this.#acks.delete(batch)) this.#owner.ack(this);
    }
  }
}

/** Subscribes to a topic, sharing the subscription that the session has. @internal @throws ThalwegError */
export function subscribe<T>(
  topics: Map<string, SharedSubscription>,
  owner: Owner,
  topic: string,
  options: SubscribeOptions,
  listener: Listener<T> | null,
): Subscription<T> {
  const from = cursorOf(options.from);
  if (!isCursor(from)) throw new ThalwegError("bad_cursor", `${from} is no place to begin`);
  let shared = topics.get(topic);
  if (!shared) {
    shared = new SharedSubscription(owner, topic, options);
    owner.subscribe(shared);
    topics.set(topic, shared);
  } else if (!shared.fits(options)) {
    throw new ThalwegError(
      "already_subscribed",
      `${topic} is subscribed to on other terms: leave out from, interval and policy, take another session, or read the past over HTTP`,
    );
  }
  return shared.join(options, listener);
}
