/** A page's subscription to a topic: batches, in order, for a listener or a loop. */

import { safely, type ThalwegError } from "./errors.js";
import type { Gap, Position, Start } from "./wire.js";

/**
 * The server's action when a subscriber falls behind the retained events. Missed events are reported as a
 * {@link Gap}.
 *
 * | policy | the subscription |
 * |---|---|
 * | `skip` | continues in the middle of the retained events |
 * | `latest` | continues with the newest batch |
 * | `close` | ends with the error `slow` or `trimmed`; other subscriptions continue |
 */
export type Policy = "skip" | "latest" | "close";

/**
 * The options of a subscription. All are optional. If the session is already subscribed to the topic, the
 * subscriptions share one on the wire: see {@link Session.subscribe}.
 */
export interface SubscribeOptions {
  /** The start: usually the `position` of the last processed batch. Default: `latest`. */
  from?: Start;
  /**
   * Shortest time between two batches, ms; events that arrive in the meantime are in the next batch. Default:
   * 0, which means no delay. Over a one-way transport (every one except `websocket`) all topics have the same
   * interval: the smallest that the page requested.
   */
  interval?: number;
  /**
   * The policy. Default: `skip`. Over a one-way transport (every one except `websocket`) it applies only if
   * all topics have the same policy.
   */
  policy?: Policy;
  /**
   * On a keyed topic only: the keys to receive, at most 100. The server sends no others. Default: all keys. The first
   * subscription's `keys` and `prefix` apply to all: pass the same ones.
   */
  keys?: readonly string[];
  /** On a keyed topic only: also receive the keys with this prefix. */
  prefix?: string;
  /**
   * Called once if a subscription with a listener ends, unless the page closed it. Reasons: the server
   * rejected it; the topic ended (`deleted`, `gone`); the policy `close` ended it (`slow`, `trimmed`); or the
   * session failed. Without `onError` a rejection or an end is an uncaught error. A `for await` loop throws
   * the error instead.
   */
  onError?: (error: ThalwegError) => void;
  /** @internal Whether the batches are those of a map. */
  isMap?: boolean;
}

/**
 * Events of one topic, in order. A batch has at least one event or a gap. Each event is delivered once, even if
 * connections break.
 */
export interface Batch<T> {
  /** The topic of the events. */
  readonly topic: string;
  /**
   * The position of the last event. Store it when the batch is processed, and pass it as {@link SubscribeOptions.from}
   * to continue later, even in another session.
   */
  readonly position: Position;
  /** The offset of the first event. */
  readonly first: number;
  /**
   * The published events, after `JSON.parse`. Do not modify them: all subscriptions to the topic get the same objects,
   * and the next version of a value topic shares unchanged parts with this one.
   */
  readonly events: readonly T[];
  /** The offset of each event, if they are not consecutive. */
  readonly offsets?: readonly number[] | undefined;
  /** On a keyed topic only: the key of each event. Use {@link Session.map} to get the newest event of each key. */
  readonly keys?: readonly string[] | undefined;
  /**
   * The events missed before these; `null` if none were. On a value topic a gap always has the reason
   * `unknown`: there may be a newer version than the one received last.
   */
  readonly gap: Gap | null;
  /** On a value topic only: the offset of the version that this one replaces, 0 if there was none. */
  readonly previous?: number | undefined;
  /**
   * The parts of a value topic's version that have changed, as JSON Pointers (RFC 6901). Missing if they are
   * unknown, because the version arrived as a whole document or is the first one of a subscription.
   */
  readonly changed?: readonly string[] | undefined;
  /** The approximate size of the batch on the wire, bytes. */
  readonly bytes: number;
}

/**
 * Processes a batch. The batch counts as processed when the listener returns, or when the returned promise settles.
 * The next batch waits for that. An error that the listener throws is an uncaught error of the page; the subscription
 * continues.
 */
export type Listener<T> = (batch: Batch<T>) => void | Promise<void>;

/** A subscription with events of any type. @internal */
export type AnySubscription = Subscription<unknown>;

/** A subscription's view of the shared subscription to its topic. @internal */
export interface Shared {
  readonly topic: string;
  /** A subscription has processed its next batch. */
  settle(): void;
  ack(subscription: AnySubscription): void;
  leave(subscription: AnySubscription): void;
}

/**
 * | state | the page | next states |
 * |---|---|---|
 * | `idle` | has no batch | a `Batch` |
 * | a `Batch` | processes this batch | `idle`, when it is processed; `acked`, if the page acks it earlier |
 * | `acked` | still works on a batch that already counts as processed; its listener gets no other batch | `idle` |
 * | `closed` | has closed the subscription, and gets no more batches | none |
 *
 * An error does not change the state. The subscription receives no more batches, but still delivers those in
 * its queue.
 */
type State<T> = "idle" | Batch<T> | "acked" | "closed";

/**
 * A subscription to one topic. Read its batches with `for await`, or pass a listener to {@link Session.subscribe};
 * not both.
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
  /** The options passed by the page. */
  declare readonly options: Readonly<SubscribeOptions>;
  /** @internal Number of the batch that the page processes next. */
  declare next: number;
  /** @internal The newest event of each key, if this is a {@link KeyedSubscription}. */
  readonly map = new Map<string, T>();
  #state: State<T> = "idle";
  /** The error that ended the subscription, if there is one. */
  #error: ThalwegError | null = null;
  #queue: Batch<T>[];
  #position: Position | null;
  readonly #listener: Listener<T> | null;
  #waiters: (() => void)[] = [];
  readonly #shared: Shared;

  /**
   * @internal
   * @param position - the start of the subscription, if it is known.
   * @param queue - batches that are delivered at once.
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
    // Deliver after the constructor has returned, so that a listener can use the subscription.
    queueMicrotask(() => this.#pump());
  }

  /**
   * The position of the last processed batch. Before the first batch it is the position where the subscription
   * began; `null` until the server has confirmed it.
   */
  get position(): Position | null {
    return this.#position;
  }

  /**
   * Closes this subscription: no further batch arrives, waiting batches are dropped, and a `for await` loop ends. Other
   * subscriptions to the topic continue.
   */
  close(): void {
    this.#state = "closed";
    this.#queue = [];
    this.#wake();
    this.#shared.leave(this as AnySubscription);
  }

  /**
   * Declares all delivered batches processed, and sends an ack. Before the first batch, the ack is sent when
   * the server has confirmed the subscription. If other subscriptions share the topic, it is sent when they
   * have processed as much. Call it only if the topic's source waits for acks: otherwise the session acks on
   * its own, often enough.
   */
  ack(): void {
    this.#finish("acked");
    this.#shared.ack(this as AnySubscription);
  }

  /** @internal Holds a batch until it is processed. */
  take(batch: Batch<T>): void {
    // A listener that got this batch first may have closed this subscription.
    if (this.#error || this.#state === "closed") return;
    this.#queue.push(batch);
    this.#wake();
    this.#pump();
  }

  /** @internal All events up to this position have arrived. */
  confirm(position: Position): void {
    if (typeof this.#state !== "object" && !this.#queue.length) this.#position = position;
  }

  /** @internal The page has processed the next batch. */
  processed(): void {
    this.next++;
    this.#shared.settle();
  }

  /** @internal Ends the subscription with an error; `isAlone`: the session continues. */
  fail(error: ThalwegError, isAlone: boolean): void {
    this.#error = error;
    this.#wake();
    const { onError } = this.options;
    if (this.#listener) {
      safely(() => {
        if (onError) onError(error);
        // The status reports the error of a failed session. An error of this subscription alone has no other report.
        else if (isAlone) throw error;
      });
    }
  }

  /**
   * Iterates over the batches. A batch counts as processed when the loop requests the next one. Leaving the loop closes
   * the subscription.
   *
   * @throws ThalwegError the error that ended the subscription, unless the page closed it.
   * @throws TypeError if the subscription has a listener.
   */
  [Symbol.asyncIterator](): AsyncGenerator<Batch<T>, void, undefined> {
    if (this.#listener) throw new TypeError("the subscription has a listener");
    const batches = this.#batches();
    const leave = batches.return.bind(batches);
    // A generator's own `return` waits until the pending `next` has a batch, so close the subscription first.
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
      else if (this.#error) throw this.#error;
      else if (this.#state === "closed") return;
      else await new Promise<void>((wake) => this.#waiters.push(wake));
    }
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  #pump(): void {
    const listener = this.#listener;
    while (listener && this.#state === "idle") {
      const batch = this.#next();
      if (!batch) return;
      const pending = safely(() => listener(batch));
      if (pending) {
        // An untyped listener may return any value.
        void Promise.resolve(pending).finally(() => {
          this.#finish("idle");
          this.#pump();
        });
      } else this.#finish("idle");
    }
  }

  /** Delivers the next batch, after the page has finished the previous one. */
  #next(): Batch<T> | undefined {
    this.#finish("idle");
    const batch = this.#queue.shift();
    if (batch) {
      this.#state = batch;
      fill(this.map, batch);
    }
    return batch;
  }

  /** Finishes the page's current batch: as processed (`idle`), or as acked by the page (`acked`). */
  #finish(next: "idle" | "acked"): void {
    const state = this.#state;
    if (typeof state === "object") {
      this.#state = next;
      this.#position = state.position;
      this.processed();
    } else if (state === "acked") this.#state = next;
  }
}

/** A batch of a map, as it arrives. @internal */
export interface Changes {
  readonly changed: readonly string[];
  /** The new event of each changed key. */
  readonly values: readonly unknown[];
  readonly removed: readonly string[];
  /** Whether the map is then the state at the batch's position. */
  readonly isWhole: boolean;
}

/** Applies a batch to a map. Batches of events change nothing. @internal */
export function fill<T>(map: Map<string, T>, batch: Batch<T>): void {
  const { values, changed, removed } = batch as Partial<Changes>;
  values?.forEach((value, index) => void map.set(changed?.[index] as string, value as T));
  removed?.forEach((key) => void map.delete(key));
}
