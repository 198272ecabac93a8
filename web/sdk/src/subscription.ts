/** A page's subscription to a topic: batches, in order, for a listener or a loop. */

import { safely, ThalwegError } from "./errors.js";
import type { Status } from "./route.js";
import { type Gap, isTopic, type Position, type Start } from "./wire.js";

/**
 * What happens to a subscriber that falls behind the events that the server retains. What it
 * misses is reported as a {@link Gap}.
 *
 * | policy | what happens |
 * |---|---|
 * | `skip` | goes on in the middle of what is retained |
 * | `latest` | goes on with the newest batch |
 * | `close` | the subscription ends with the error `slow` or `trimmed`; others go on |
 */
export type Policy = "skip" | "latest" | "close";

/**
 * The options of a subscription; each may be left out. Where the session is subscribed to the topic already,
 * the subscriptions share theirs: see {@link Session.subscribe}.
 */
export interface SubscribeOptions {
  /** Where to begin: usually the `position` of the last batch that was processed. `latest` if left out. */
  from?: Start;
  /**
   * At least this long between two batches, ms; events that come meanwhile are in the next one.
   * 0 if left out: batches come as soon as they can. A one-way transport has one interval for
   * its connection: the smallest of all topics.
   */
  interval?: number;
  /** `skip` if left out. On a one-way transport it holds only if all topics have the same. */
  policy?: Policy;
  /**
   * Called once if something else than the page ends a subscription that has a listener: the
   * server refuses it, the topic has ended (`deleted`, `gone`, or under the policy `close` `slow` and `trimmed`), or the session has failed. Without
   * it a refusal or an end is an uncaught error. A `for await` loop throws the error instead.
   */
  onError?: (error: ThalwegError) => void;
}

/**
 * Events of one topic, in order. There is at least one event or a gap. Each event comes once,
 * whatever happens to connections meanwhile.
 */
export interface Batch<T> {
  /** The topic of the events. */
  readonly topic: string;
  /**
   * The position of the last event. To go on later, even in another session, keep it when the
   * batch is processed, and give it as {@link SubscribeOptions.from}.
   */
  readonly position: Position;
  /** The offset of the first event. */
  readonly first: number;
  /**
   * Each as it was published, after `JSON.parse`. Do not change them: all subscriptions to the topic get the
   * same objects. The next version of a value topic may be made of the last one, and shares what is the same in both.
   */
  readonly events: readonly T[];
  /** The offset of each event, if they are not consecutive. */
  readonly offsets?: readonly number[] | undefined;
  /**
   * Events that were missed before these; `null` if none were. Of a value topic: its reason is `unknown`,
   * and the version that came last may not be the newest any more.
   */
  readonly gap: Gap | null;
  /** Of a value topic, and of no other: the offset of the version that this one replaces, 0 if there was none. */
  readonly previous?: number | undefined;
  /**
   * Where a version of a value topic differs from the one before, as JSON Pointers (RFC 6901). Left
   * out if that is not known, because the version came whole, or is the first one of a subscription.
   */
  readonly changed?: readonly string[] | undefined;
  /** About its size on the wire. */
  readonly bytes: number;
}

/**
 * Processes a batch. The batch counts as processed when it returns; if it returns a promise,
 * when that is settled, and the next batch waits for it. What it throws is an uncaught error
 * of the page; the subscription goes on.
 */
export type Listener<T> = (batch: Batch<T>) => void | Promise<void>;

/** One whose events may be anything. @internal */
export type AnySubscription = Subscription<unknown>;

/** What a subscription shares with others to its topic. @internal */
export interface Shared {
  readonly topic: string;
  /** One of them has processed its next batch. */
  settle(): void;
  ack(subscription: AnySubscription): void;
  leave(subscription: AnySubscription): void;
}

/**
 * A subscription to one topic. Take its batches with `for await`, or give a listener to
 * {@link Session.subscribe}; not both.
 *
 * ```js
 * const orders = session.subscribe("orders", { from: "earliest" });
 * for await (const { events, position } of orders) {
 *   await store(events, position); // the next batch waits
 * }
 * ```
 */
export class Subscription<T> implements AsyncIterable<Batch<T>> {
  /** The topic. */
  declare readonly topic: string;
  /** The options that it was made with. */
  declare readonly options: Readonly<SubscribeOptions>;
  /** @internal The number of the batch that it processes next. */
  declare next: number;
  #position: Position | null;
  #queue: Batch<T>[];
  /** Delivered to the page, and not known to be processed. */
  #delivered: Batch<T> | undefined;
  #isProcessing = false;
  #listener: Listener<T> | null;
  #waiters: (() => void)[] = [];
  #error: Error | null = null;
  #isClosed = false;
  #shared: Shared;

  /**
   * @internal
   * @param position - where it begins, if that is known.
   * @param queue - what it has at once.
   */
  constructor(
    shared: Shared,
    options: SubscribeOptions,
    listener: Listener<T> | null,
    position: Position | null,
    queue: Batch<T>[],
  ) {
    this.#shared = shared;
    this.topic = shared.topic;
    this.options = options;
    this.#listener = listener;
    this.#position = position;
    this.#queue = queue;
    // A listener may use what `subscribe` returns.
    queueMicrotask(() => this.#pump());
  }

  /**
   * The position of the last batch that was processed; before the first one, where the
   * subscription began; `null` until the server has confirmed that.
   */
  get position(): Position | null {
    return this.#position;
  }

  /**
   * Closes this subscription: no batch comes any more, batches that wait are thrown away, and a
   * `for await` loop ends. Other subscriptions to the topic go on.
   */
  close(): void {
    this.#end(null);
    this.#shared.leave(this as AnySubscription);
  }

  /**
   * Declares everything received so far processed, and sends an ack at once (before anything
   * has come: as soon as the subscription is confirmed; where others share the topic: as soon as they have
   * processed as much). A page needs it only if the topic's source waits for acks: otherwise the
   * session sends them by itself, often enough for the window.
   */
  ack(): void {
    this.#finish();
    this.#shared.ack(this as AnySubscription);
  }

  /** @internal Takes a batch, until it is processed. */
  take(batch: Batch<T>): void {
    // A listener that had it before may have closed this subscription.
    if (this.#isClosed) return;
    this.#queue.push(batch);
    this.#wake();
    this.#pump();
  }

  /** @internal Everything up to this position has come. */
  confirm(position: Position): void {
    if (!this.#delivered && !this.#queue.length) this.#position = position;
  }

  /** @internal The next of its batches has been processed. */
  processed(): void {
    this.next++;
    this.#shared.settle();
  }

  /** @internal Nothing comes any more, because of this; `isAlone`: the session goes on. */
  fail(error: ThalwegError, isAlone: boolean): void {
    this.#end(error);
    const { onError } = this.options;
    if (this.#listener) {
      safely(() => {
        if (onError) onError(error);
        // Of the session's end its status tells; of this nobody else does.
        else if (isAlone) throw error;
      });
    }
  }

  /**
   * The batches, one after the other. A batch counts as processed when the loop asks for the
   * next one. Leaving the loop closes the subscription.
   *
   * @throws ThalwegError what ended the subscription, if that was not the page.
   * @throws TypeError if it has a listener.
   */
  [Symbol.asyncIterator](): AsyncGenerator<Batch<T>, void, undefined> {
    if (this.#listener) throw new TypeError("it has a listener");
    const batches = this.#batches();
    const leave = batches.return.bind(batches);
    // By itself it would leave when the next batch has come.
    batches.return = (value) => {
      this.close();
      return leave(value);
    };
    return batches;
  }

  async *#batches(): AsyncGenerator<Batch<T>, void, undefined> {
    for (;;) {
      const next = this.#next();
      if (next) yield next;
      else if (!this.#isClosed) await new Promise<void>((wake) => this.#waiters.push(wake));
      else if (this.#error) throw this.#error;
      else return;
    }
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  #end(error: Error | null): void {
    this.#isClosed = true;
    this.#error ??= error;
    // Batches that have come already are still delivered after an error.
    if (!error) {
      this.#delivered = undefined;
      this.#queue = [];
    }
    this.#wake();
  }

  #pump(): void {
    const listener = this.#listener;
    for (let next: Batch<T> | undefined; listener && !this.#isProcessing && (next = this.#next()); ) {
      const batch = next;
      const pending = safely(() => listener(batch));
      if (!pending) continue;
      this.#isProcessing = true;
      // Whatever it is: a listener without types may return anything.
      void Promise.resolve(pending).finally(() => {
        this.#isProcessing = false;
        this.#pump();
      });
    }
  }

  #next(): Batch<T> | undefined {
    this.#finish();
    return (this.#delivered = this.#queue.shift());
  }

  #finish(): void {
    const delivered = this.#delivered;
    this.#delivered = undefined;
    if (!delivered) return;
    this.#position = delivered.position;
    this.processed();
  }
}

/** Whether a session can be asked for something about a topic. @internal @throws ThalwegError */
export function check({ state }: Status, topic?: string): void {
  if (state === "closed") throw new ThalwegError("closed", "the session is closed");
  if (topic !== undefined) checkTopic(topic);
}

/** Whether a topic can be called so. @internal @throws ThalwegError */
export function checkTopic(topic: string): void {
  if (!isTopic(topic)) throw new ThalwegError("bad_topic", `no topic can be called ${topic}`);
}
