/** One topic of a session, for whoever processes it. */

import type { Connection } from "./connection.js";
import { advance } from "./cursor.js";
import { safely, ThalwegError } from "./errors.js";
import type { Settings } from "./options.js";
import type { Status } from "./route.js";
import {
  type Cursor,
  cursorOf,
  type Ended,
  type Gap,
  isCursor,
  isTopic,
  type Message,
  type Position,
  type Start,
} from "./wire.js";

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

/** What a subscription asks for. All of it can be left out. */
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
   * Each as it was published, after `JSON.parse`. A version of a value topic must not be changed:
   * the next may be made of it. What is the same in both is then the same object.
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
   * out if that is not known, because the version came whole.
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

/** What a subscription tells its session. @internal */
export interface Owner {
  /** So many bytes do not wait any more: processed, or thrown away with the subscription. */
  processed(subscription: AnySubscription, bytes: number): void;
  ack(subscription: AnySubscription): void;
  unsubscribe(subscription: AnySubscription): void;
}

/** The session of one that receives messages, and not batches of a Worker. @internal */
export interface Receiver extends Owner {
  readonly settings: Settings;
  /** The connection in use. */
  connection(): Connection | null;
  /** Something else is wanted of it. */
  changed(): void;
  /** Patches are of no use: from here on documents come whole, over another connection. */
  takeWhole(subscription: AnySubscription): null;
  /** The server has ended the topic. */
  ended(subscription: AnySubscription, end: Ended): void;
}

type Deltas = Pick<typeof import("./deltas.js"), "made">;

/** What makes versions of patches: loaded when the first one has come. */
let deltas: Deltas | undefined;

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
  /** @internal What has been received. */
  declare cursor: Cursor;
  /** @internal */
  declare version?: unknown;
  /** @internal Patches in a row that were of no use. */
  declare failures?: number;
  #position: Position | null = null;
  #queue: Batch<T>[] = [];
  /** Delivered to the page, and not known to be processed. */
  #delivered: Batch<T> | undefined;
  #isProcessing = false;
  /** Bytes of what was received and is not processed. */
  #unprocessed = 0;
  #listener: Listener<T> | null;
  #waiters: (() => void)[] = [];
  #error: Error | null = null;
  #isClosed = false;
  #owner: Owner;

  /** @internal */
  constructor(owner: Owner, topic: string, options: SubscribeOptions, listener: Listener<T> | null) {
    this.#owner = owner;
    this.topic = topic;
    this.options = options;
    this.cursor = cursorOf(options.from);
    this.#listener = listener;
  }

  /**
   * The position of the last batch that was processed; before the first one, where the
   * subscription began; `null` until the server has confirmed that.
   */
  get position(): Position | null {
    return this.#position;
  }

  /** Unsubscribes: no batch comes any more, and a `for await` loop ends. Does nothing if it has ended. */
  close(): void {
    if (this.#isClosed) return;
    this.#end(null);
    this.#owner.unsubscribe(this as AnySubscription);
  }

  /**
   * Declares everything received so far processed, and sends an ack at once (before anything
   * has come: as soon as the subscription is confirmed). A page needs it only if the topic's
   * source waits for acks: otherwise the session sends them by itself, often enough for the
   * window.
   */
  ack(): void {
    this.#finish();
    this.#owner.ack(this as AnySubscription);
  }

  /** @internal Takes what is new in a message. */
  receive(message: Message, bytes: number): void {
    if (message.patch && !deltas) {
      this.#hold(message, bytes);
      return;
    }
    if (message.end) {
      (this.#owner as Receiver).ended(this as AnySubscription, message.end);
      return;
    }
    let fresh = this.#isClosed ? null : advance(this, message);
    if (fresh && message.patch)
      fresh = (deltas as Deltas).made(this as AnySubscription, message, this.#owner as Receiver);
    this.#unprocessed += bytes;
    const { topic, cursor: position } = this;
    if (fresh) this.take({ topic, position, ...fresh, events: fresh.events as T[], bytes });
    // Repeats fill a window as well. With nothing before it, a confirmation is as good as
    // a batch that has been processed.
    else this.processed(this.#unprocessed === bytes && !message.patch ? position : null, bytes);
  }

  /** @internal Takes a batch, until it is processed. */
  take(batch: Batch<T>): void {
    this.#queue.push(batch);
    this.#wake();
    this.#pump();
  }

  /** @internal So much has been processed, or thrown away if there is no position. */
  processed(position: Position | null, bytes: number): void {
    this.#unprocessed -= bytes;
    this.#position = position ?? this.#position;
    this.#owner.processed(this as AnySubscription, bytes);
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

  /**
   * What comes from this one on waits until patches can be applied. It counts as not processed: so
   * it is bounded as that is.
   */
  #hold(...first: [Message, number]): void {
    const held = [first];
    Object.assign(this, { receive: (...next: [Message, number]) => held.push(next) });
    // A page may have been given the core alone.
    void import("./deltas.js")
      .catch((): Deltas => ({ made: (it, _, owner) => owner.takeWhole(it) }))
      .then((its) => {
        deltas = its;
        delete (this as { receive?: unknown }).receive;
        for (const it of held) safely(() => this.receive(...it));
      });
  }

  #wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  #end(error: Error | null): void {
    this.#isClosed = true;
    this.#error = error;
    // What has come already is still delivered, unless nobody wants it any more.
    if (!error) {
      if (this.#delivered) this.#queue.push(this.#delivered);
      this.#delivered = undefined;
      for (const { bytes } of this.#queue.splice(0)) this.processed(null, bytes);
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
    if (delivered) this.processed(delivered.position, delivered.bytes);
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

/** A new one among a session's topics. @internal @throws ThalwegError */
export function createSubscription<T>(
  topics: Map<string, AnySubscription>,
  owner: Owner,
  topic: string,
  options: SubscribeOptions,
  listener: Listener<T> | null,
): Subscription<T> {
  const from = cursorOf(options.from);
  if (!isCursor(from)) {
    throw new ThalwegError("bad_cursor", `${from} is no place to begin`);
  }
  if (topics.has(topic)) {
    throw new ThalwegError("already_subscribed", `${topic} is subscribed to: share that, or close it first`);
  }
  const subscription = new Subscription<T>(owner, topic, options, listener);
  topics.set(topic, subscription as AnySubscription);
  return subscription;
}
