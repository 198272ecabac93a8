/** A page's subscription to a keyed topic: the newest event of each key. */

import type { SubscribeOptions } from "./subscription.js";
import type { Gap, Position } from "./wire.js";

/** The options of {@link Session.map}. A map always begins with all keys, so there is no `from`. */
export type KeyedOptions = Pick<SubscribeOptions, "interval" | "keys" | "prefix" | "onError">;

/**
 * Changes of a keyed topic's map, from one state that the topic had to a later one. The first batch has all keys, and
 * comes even if the topic has no keys.
 */
export interface KeyedBatch {
  /** The topic. */
  readonly topic: string;
  /** The position at which the topic had this state. */
  readonly position: Position;
  /** The keys that are new or have a new event. After a gap these are all keys of the map. */
  readonly changed: readonly string[];
  /** The keys that the map no longer has. */
  readonly removed: readonly string[];
  /**
   * Whether the map is the topic's state at `position`. `false` only in a batch with a gap, which changes nothing: the
   * map keeps its old state until the next batch, which has the differences.
   */
  readonly isWhole: boolean;
  /** The reason why the server sends all keys again; `null` in other batches. */
  readonly gap: Gap | null;
  /** The approximate size on the wire of the message that completed the batch, bytes. */
  readonly bytes: number;
}

/** Processes a batch, as a {@link Listener} does. */
export type KeyedListener = (batch: KeyedBatch) => void | Promise<void>;

/**
 * The newest event of each key of a topic. Read its batches with `for await`, or pass a listener to {@link Session.map};
 * not both.
 *
 * ```js
 * const cars = session.map("cars");
 * for await (const { changed, removed } of cars) {
 *   for (const key of changed) show(key, cars.map.get(key));
 *   for (const key of removed) hide(key);
 * }
 * ```
 */
export interface KeyedSubscription<T> extends AsyncIterable<KeyedBatch> {
  /** The topic. */
  readonly topic: string;
  /**
   * The newest event of each key, including the batch that the page is processing. It changes only when the page gets
   * the next batch. Do not modify the events: all maps of the topic have the same objects.
   */
  readonly map: ReadonlyMap<string, T>;
  /** Closes the subscription, as {@link Subscription.close} does. The map keeps its last state. */
  close(): void;
  /** Declares all delivered batches processed, as {@link Subscription.ack} does. */
  ack(): void;
}

/** A member of a topic: the newest event of its key in `presence/TOPIC`. */
export interface MemberEntry<Info = unknown> {
  /** The subject of its token. Missing without a token that has one. */
  readonly user?: string;
  /** The time when it joined, in ms since 1970. */
  readonly since: number;
  /** Its description of itself: the option `member.info` of `connect`. The server does not check it. */
  readonly info?: Info;
}
