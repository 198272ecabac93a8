/** The topics that the components below a provider read, and the sessions that they arrive over. Independent of React. */

import type { ThalwegError } from "./errors.js";
import { EMPTY, type Link, type Snapshot, type Spec, Store } from "./react-store.js";
import type { Session } from "./session.js";
import { IDLE, type Status } from "./status.js";

/** Time for which a topic without components stays subscribed, ms. */
const GRACE_MS = 1000;
/** Longest time between a change and its rendering, ms. A hidden tab has no frames. */
const FRAME_MS_MAX = 100;

/** An idle session carries no topic. */
const WORST = ["closed", "waiting", "connecting", "open", "idle"];

/** An external store of a component. @internal */
export interface Reader {
  subscribe(listener: () => void): () => void;
  snapshot(): Snapshot;
  /** Returns the snapshot on the server and while the page hydrates. */
  initial(): Snapshot;
}

/** The reader of a hook without a topic. */
const NOTHING: Reader = { subscribe: () => () => {}, snapshot: () => EMPTY, initial: () => EMPTY };

/** @internal */
export class Live {
  /** The status of all sessions together. */
  status = IDLE;
  /** The latest one that the page's function was called with. */
  #reported = IDLE;
  readonly #connect: (onStatus: (status: Status) => void) => Session;
  readonly #onStatus: (status: Status) => void;
  /** Almost always one. The next ones carry topics that are read in different ways. */
  #links: Link[] = [];
  readonly #stores = new Set<Store>();
  readonly #listeners = new Set<() => void>();
  #holders = 0;
  #closing: ReturnType<typeof setTimeout> | undefined;
  #isBeginning = false;
  #isChanging = false;

  constructor(connect: (onStatus: (status: Status) => void) => Session, onStatus: (status: Status) => void) {
    this.#connect = connect;
    this.#onStatus = onStatus;
  }

  /** Keeps the sessions open until the returned function has been called. */
  hold = (): (() => void) => {
    this.#holders++;
    clearTimeout(this.#closing);
    return () => {
      if (!--this.#holders) this.#closeSoon();
    };
  };

  #closeSoon(): void {
    clearTimeout(this.#closing);
    this.#closing = setTimeout(() => this.#close(), GRACE_MS);
  }

  /** Calls a listener after each change of a snapshot or of the status. */
  watch = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** The first session. After a failure it is another one. */
  get #session(): Session {
    this.#forget();
    // A component that is never mounted, or no longer, has no provider that closes the session.
    if (!this.#holders) this.#closeSoon();
    const link = this.#link(0);
    if (!link) throw new Error("connect returned no session");
    return link.session;
  }

  /** Drops the sessions that have failed. */
  #forget(): void {
    const [first] = this.#links;
    this.#links = this.#links.filter(({ session }) => session.status.state !== "closed");
    if (first === this.#links[0]) return;
    // Effects that depend on these functions run again.
    this.methods = this.#methods();
    this.#changed();
  }

  /** Connects at once. After a failure a new session begins, and topics continue at their positions. */
  #reconnect(): void {
    for (const { session } of this.#links) if (session.status.state !== "closed") session.reconnect();
    const failed = [...this.#stores].filter(
      ({ link, hasFailed }) => hasFailed || link?.session.status.state === "closed",
    );
    for (const store of failed) store.stop();
    this.#forget();
    this.#begin();
    this.#changed();
  }

  /** The functions of a {@link Session}, which may be called at any time. They are others after a failure. */
  methods: Omit<Session, "status" | "close"> = this.#methods();

  #methods(): Omit<Session, "status" | "close"> {
    return {
      subscribe: (...given) => this.#session.subscribe(...given),
      map: (...given) => this.#session.map(...given),
      presence: (...given) => this.#session.presence(...given),
      publish: async (...given) => this.#session.publish(...given),
      request: async (data) => this.#session.request(data),
      use: (transport) => this.#session.use(transport),
      reconnect: () => this.#reconnect(),
    };
  }

  /** Returns the store of a component. It subscribes to nothing before React calls `subscribe`. */
  reader(spec: Spec | null): Reader {
    if (!spec) return NOTHING;
    let store = new Store(spec, this.#changed);
    const { snapshot } = store;
    if (!spec.initial) this.#lend(store);
    let isReading = false;
    return {
      subscribe: (listener) => {
        const unwatch = this.watch(listener);
        store = this.#acquire(spec, store);
        isReading = true;
        return () => {
          isReading = false;
          unwatch();
          this.#release(store);
        };
      },
      // Another component may already show the topic.
      snapshot: () => (isReading ? store : (this.#find(spec) ?? store)).snapshot,
      initial: () => snapshot,
    };
  }

  /** Shows what other stores know of the topic until the first batch. */
  #lend(store: Store): void {
    const { spec } = store;
    if (spec.isMap) {
      const others = [...this.#stores].filter(({ spec: { topic, isMap } }) => isMap && topic === spec.topic);
      store.borrowKeys(others.map(({ snapshot }) => snapshot.map));
      return;
    }
    const most = this.#alike(spec).sort((one, other) => other.keep - one.keep)[0];
    if (most) store.borrow(most.snapshot);
  }

  /** Returns the stores that read a topic in the same way. */
  #alike(spec: Spec): Store[] {
    const key = keyOf(spec);
    return [...this.#stores].filter((store) => keyOf(store.spec) === key);
  }

  #find(spec: Spec): Store | undefined {
    return this.#alike(spec).find((store) => !store.hasBegun || store.keep >= spec.keep);
  }

  #acquire(spec: Spec, own: Store): Store {
    const store = this.#find(spec) ?? own;
    this.#stores.add(store);
    store.keep = Math.max(store.keep, spec.keep);
    store.readers++;
    clearTimeout(store.timer);
    this.#begin();
    return store;
  }

  #release(store: Store): void {
    if (!--store.readers) store.timer = setTimeout(() => this.#drop(store), GRACE_MS);
  }

  #drop(store: Store): void {
    store.stop();
    this.#stores.delete(store);
    this.#changed();
  }

  /**
   * Subscribes to new topics, after all components of a commit have said what they need. StrictMode unmounts and mounts them in
   * the meantime.
   */
  #begin(): void {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    queueMicrotask(() => {
      this.#isBeginning = false;
      for (const store of this.#stores) if (store.readers && !store.hasBegun) this.#subscribe(store);
    });
  }

  #subscribe(store: Store): void {
    let error: unknown;
    for (let index = 0; ; index++) {
      try {
        const link = this.#link(index);
        if (!link) break;
        this.#makeWay(link, store.spec.topic);
        store.begin(link);
        return;
      } catch (its) {
        error = its;
        // The session reads the topic in another way.
        if ((its as ThalwegError).code !== "already_subscribed") break;
      }
    }
    store.fail(error as ThalwegError);
  }

  /** Drops what no component reads any more: a changed filter of a topic needs no second connection. */
  #makeWay(link: Link, topic: string): void {
    for (const store of this.#stores)
      if (store.link === link && store.spec.topic === topic && !store.readers) this.#drop(store);
  }

  /** Returns a session, or `undefined` if `connect` creates no more. */
  #link(index: number): Link | undefined {
    const known = this.#links[index];
    if (known) return known;
    let link: Link | undefined;
    const session = this.#connect((status) => {
      if (!link) return;
      link.status = status;
      for (const store of this.#stores) if (store.link === link) store.touch();
      this.#changed();
      this.#report();
    });
    if (this.#links.some((its) => its.session === session)) return;
    link = { session, status: session.status };
    this.#links.push(link);
    return link;
  }

  /** Returns the status of the session that is furthest from `open`, of those that carry topics. */
  #overall(): Status {
    const used = this.#links.filter((link, index) => !index || [...this.#stores].some((store) => store.link === link));
    const statuses = used.map(({ status }) => status);
    return statuses.sort((one, other) => WORST.indexOf(one.state) - WORST.indexOf(other.state))[0] ?? IDLE;
  }

  #report(): void {
    const status = this.#overall();
    if (isSame(status, this.#reported)) return;
    this.#reported = status;
    this.#onStatus(status);
  }

  /** Publishes all changes at the next frame: components never show states of different times, or render without need. */
  readonly #changed = (): void => {
    if (this.#isChanging) return;
    this.#isChanging = true;
    soon(() => {
      this.#isChanging = false;
      for (const store of this.#stores) store.publish();
      this.status = this.#overall();
      for (const listener of [...this.#listeners]) listener();
      if (this.#links.length) this.#report();
    });
  };

  #close(): void {
    for (const store of [...this.#stores]) this.#drop(store);
    for (const { session } of this.#links) session.close();
    this.#links = [];
  }
}

function keyOf({ topic, isMap, terms }: Spec): string {
  return JSON.stringify([topic, isMap, terms]);
}

function isSame(one: Status, other: Status): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Runs a function at the next frame. */
function soon(run: () => void): void {
  const { requestAnimationFrame: frame, cancelAnimationFrame: cancel } = globalThis;
  const go = (): void => {
    clearTimeout(timer);
    cancel?.(request);
    run();
  };
  const timer = setTimeout(go, FRAME_MS_MAX);
  const request = frame?.(go);
}
