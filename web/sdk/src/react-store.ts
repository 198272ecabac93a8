/** The state of one topic that components show. Independent of React. */

import type { ThalwegError } from "./errors.js";
import type { KeyedSubscription } from "./map.js";
import type { Session } from "./session.js";
import { IDLE, type Status } from "./status.js";
import type { Batch, SubscribeOptions, Subscription } from "./subscription.js";
import { type Envelope, type Gap, type Position, parsePosition } from "./wire.js";

/** Most events that a subscription can begin with. */
const NEWEST_MAX = 10_000;

/** A topic as a component reads it. @internal */
export interface Spec {
  readonly topic: string;
  readonly isMap: boolean;
  /** Number of newest events to keep. */
  readonly keep: number;
  readonly terms: Pick<SubscribeOptions, "from" | "interval" | "keys" | "policy" | "prefix">;
  readonly initial: Envelope | undefined;
}

/** The state that components read. It is never modified. @internal */
export interface Snapshot {
  readonly events: readonly unknown[];
  /** The position of each event. */
  readonly positions: readonly Position[];
  readonly map: ReadonlyMap<string, unknown>;
  readonly isWhole: boolean;
  readonly position: Position | null;
  readonly gap: Gap | null;
  /** Number of events before the gap. */
  readonly before: number;
  readonly error: ThalwegError | null;
  readonly status: Status;
}

/** The state of a topic before its first event. @internal */
export const EMPTY: Snapshot = {
  events: [],
  positions: [],
  map: new Map(),
  isWhole: false,
  position: null,
  gap: null,
  before: 0,
  error: null,
  status: IDLE,
};

/** A session, and its latest status. @internal */
export interface Link {
  readonly session: Session;
  status: Status;
}

/** A topic with the components that read it. @internal */
export class Store {
  readonly spec: Spec;
  /** Number of components that read it. */
  readers = 0;
  timer: ReturnType<typeof setTimeout> | undefined;
  keep: number;
  /** The published state. */
  snapshot = EMPTY;
  link: Link | null = null;
  /** The state that is published next. */
  #next = EMPTY;
  /** Whether the state is that of another store, until the first batch. */
  #isBorrowed = false;
  #map: ReadonlyMap<string, unknown> | null = null;
  #subscription: Subscription<unknown> | KeyedSubscription<unknown> | null = null;
  readonly #changed: () => void;

  constructor(spec: Spec, changed: () => void) {
    this.spec = spec;
    this.keep = spec.keep;
    this.#changed = changed;
    const { initial, isMap } = spec;
    if (!initial) return;
    if (isMap) {
      const map = new Map(initial.keys?.map((key, index) => [key, initial.events[index]]));
      this.#next = { ...EMPTY, map, isWhole: !initial.until };
    } else this.#append({ gap: null, bytes: 0, ...initial });
    this.publish();
  }

  /** Shows the state of a store with fewer events until the first batch. */
  borrow(snapshot: Snapshot): void {
    this.#isBorrowed = true;
    this.#next = { ...snapshot, error: null };
    this.publish();
  }

  /** Shows the own keys of other maps of the topic until the first state. */
  borrowKeys(maps: readonly ReadonlyMap<string, unknown>[]): void {
    const { keys, prefix } = this.spec.terms;
    const isOwn = (key: string): boolean => keys?.includes(key) || (prefix ? key.startsWith(prefix) : !keys);
    this.#next = { ...EMPTY, map: new Map(maps.flatMap((map) => [...map]).filter(([key]) => isOwn(key))) };
    this.publish();
  }

  get hasFailed(): boolean {
    return this.#next.error !== null;
  }

  /** Whether the topic is subscribed to, or has ended. */
  get hasBegun(): boolean {
    return this.link !== null || this.hasFailed;
  }

  /** Subscribes, after the last position if there is one. @throws ThalwegError */
  begin(link: Link): void {
    const { topic, isMap, terms } = this.spec;
    const onError = (error: ThalwegError): void => this.fail(error);
    if (isMap) {
      const { from: _, policy: __, ...options } = terms;
      const subscription = link.session.map(topic, { ...options, onError }, ({ isWhole, gap, position }) => {
        if (isWhole) this.#map = subscription.map;
        this.#change({ isWhole, gap, position });
      });
      this.#subscription = subscription;
    } else {
      const position = this.#isBorrowed ? null : this.#next.position;
      const from = position ?? terms.from ?? { newest: Math.min(this.keep, NEWEST_MAX) };
      this.#subscription = link.session.subscribe(topic, { ...terms, from, onError }, (batch) => {
        this.#append(batch);
        this.#changed();
      });
    }
    this.link = link;
    this.touch();
  }

  /** Unsubscribes, and keeps the state. */
  stop(): void {
    const position = this.#subscription && "position" in this.#subscription ? this.#subscription.position : null;
    this.#subscription?.close();
    this.#subscription = this.link = null;
    this.#next = { ...this.#next, position: position ?? this.#next.position, error: null };
  }

  fail(error: ThalwegError): void {
    this.#change({ error });
  }

  /** The status of the session has changed. */
  touch(): void {
    this.#change({});
  }

  /** Replaces the snapshot if the state has changed. */
  publish(): void {
    if (this.#map) {
      // The session modifies its map, and a rendering that React interrupts must not see that.
      this.#next = { ...this.#next, map: new Map(this.#map) };
      this.#map = null;
    }
    this.snapshot = this.#next;
  }

  #change(change: Partial<Snapshot>): void {
    this.#next = { ...this.#next, ...change, status: this.link?.status ?? this.#next.status };
    this.#changed();
  }

  #append({ events, first, offsets, position, gap, previous }: Omit<Batch<unknown>, "topic">): void {
    const last = this.#isBorrowed ? { ...EMPTY, status: this.#next.status } : this.#next;
    this.#isBorrowed = false;
    const { keep } = this;
    const epoch = parsePosition(position)?.epoch;
    const skipped = Math.max(0, events.length - keep);
    const places = events.slice(skipped).map((_, index) => {
      const at = skipped + index;
      return `${epoch}.${offsets?.[at] ?? first + at}`;
    });
    const kept = keep - places.length;
    const cut = Math.max(0, last.events.length - kept);
    // A version of a value topic also ends the doubt about the one before.
    const isAfter = previous !== undefined && !gap;
    const before = (gap ? last.events.length : last.before) - cut - skipped;
    this.#next = {
      ...last,
      position,
      events: [...last.events.slice(cut), ...events.slice(skipped)],
      positions: [...last.positions.slice(cut), ...places],
      gap: isAfter || before < 0 ? null : (gap ?? last.gap),
      before,
    };
  }
}
