/**
 * A session with a server: its topics, over the connection that the route provides.
 *
 * The path of an event:
 *
 * 1. a transport calls `handlers.text`;
 * 2. the connection parses the text and calls the session's `received`;
 * 3. `receive` finds the new events, and calls `take` of the shared subscription;
 * 4. the listeners and loops of the page's subscriptions get the batch;
 * 5. when all have processed it, the session sends an ack.
 *
 * The path of a subscription: `subscribe` calls `changed`. Then `reconcile` sends a command over the open connection,
 * or the route opens a connection by the session's `plan`.
 */

import { checkJson, checkOpen, checkTarget } from "./checks.js";
import { type Commands, commands, type Published, type PublishTarget } from "./commands.js";
import type { Connection } from "./connection.js";
import { safely, ThalwegError } from "./errors.js";
import { type FlowControl, flowControl } from "./flow.js";
import type { KeyedListener, KeyedOptions, KeyedSubscription, MemberEntry } from "./map.js";
import { type ConnectOptions, root, type Settings, settings } from "./options.js";
import { type Page, thisPage } from "./page.js";
import { type Receiver, receive } from "./receive.js";
import { type DesiredTopics, plan, reconcile } from "./reconcile.js";
import { Route, type RouteHooks } from "./route.js";
import { type SharedSubscription, subscribe, subscribeMap } from "./sharing.js";
import { IDLE, type Status } from "./status.js";
import type { Listener, SubscribeOptions, Subscription } from "./subscription.js";
import { transport } from "./transports/order.js";
import type { ConnectPlan, Transport, TransportName } from "./transports/transport.js";
import type { Ended, Message } from "./wire.js";

/**
 * A session with a server. It connects when it is first used, reconnects on its own, and resumes at its positions:
 * events that the server still has are neither lost nor repeated. Events that are no longer available are reported
 * as a {@link Gap}.
 */
export interface Session {
  /** The latest status. */
  readonly status: Status;

  /**
   * Subscribes to a topic. All subscriptions of a session to one topic share one subscription on the wire, which lasts
   * until the last of them is closed. Each has its own `position` and its own batches to process.
   *
   * If the session is already subscribed to the topic, the new subscription begins with the next batch; on a
   * value topic it first gets the newest version that the session has. Its `from` must be `latest` or the
   * position of the last batch that the session has received. The first subscription's `interval` and
   * `policy` apply to all: omit them or pass the same values. Its `keys` and `prefix` do, too: pass the same ones. A batch counts as processed when every
   * subscription has processed it. The server stops sending when too much data is unprocessed, so a slow
   * subscription delays the others.
   *
   * ```js
   * const cars = session.subscribe("cars", { from: "earliest" }, ({ events, gap, position }) => {
   *   if (gap) console.warn("missed", gap.missed, gap.reason);
   *   for (const event of events) show(event);
   *   localStorage.cars = position;
   * });
   * ```
   *
   * @param listener - processes each batch. Without a listener, read the batches with `for await`.
   * @throws ThalwegError `closed`, `bad_topic`, `bad_cursor`; `already_subscribed` if the options differ from those of
   * the existing subscription: the message names the remedy.
   */
  subscribe<T = unknown>(topic: string, options?: SubscribeOptions, listener?: Listener<T> | null): Subscription<T>;

  /**
   * Subscribes to a keyed topic as a map: the newest event of each key. The page gets only states that the topic had, even
   * if the server sends a state in several messages, or connections break.
   *
   * ```js
   * const cars = session.map("cars", {}, ({ changed, removed }) => {
   *   for (const key of changed) show(key, cars.map.get(key));
   *   for (const key of removed) hide(key);
   * });
   * ```
   *
   * Several maps of one topic share one subscription on the wire, as those of {@link Session.subscribe} do. A later one
   * first gets all keys. A session cannot subscribe to a topic both as a map and by `subscribe`.
   *
   * @param listener - processes each batch. Without a listener, read the batches with `for await`.
   * @throws ThalwegError `closed`, `bad_topic`, `already_subscribed`; `bad_cursor` if the options have a `from`. The
   * subscription ends with `not_keyed` if the topic is not keyed.
   */
  map<T = unknown>(topic: string, options?: KeyedOptions, listener?: KeyedListener | null): KeyedSubscription<T>;

  /**
   * Subscribes to the members of a topic as a map, if the setting `presence` of the server lists them. A member that
   * joins is a new key, a member that leaves a removed key. The page itself is a member if it subscribes to the topic;
   * {@link ConnectOptions.member} describes it.
   *
   * ```js
   * const people = session.presence("rooms/7", {}, () => {
   *   show([...people.map.values()].map(({ user, info }) => user ?? info?.name));
   * });
   * ```
   *
   * It is `session.map("presence/rooms/7")`. If the server only counts the members, use that: the number is the event of
   * the key `count`.
   *
   * @param listener - processes each batch. Without a listener, read the batches with `for await`.
   * @throws ThalwegError as {@link Session.map} does.
   */
  presence<Info = unknown>(
    topic: string,
    options?: KeyedOptions,
    listener?: KeyedListener | null,
  ): KeyedSubscription<MemberEntry<Info>>;

  /**
   * Publishes one or more events, in order. For an event of a keyed topic, `topic` may name its key:
   *
   * ```js
   * await session.publish({ topic: "cars", key: "c7" }, { speed: 39 });
   * await session.publish({ topic: "cars", key: "c7" }, null); // removes the key
   * ```
   *
   * Over a WebSocket the session sends them as one command. Over the other transports it sends a `POST`. If
   * the server does not answer, the session retries a single event up to five times, with an idempotency key, so
   * that the server appends the event only once. The session does not retry several events.
   *
   * @throws ThalwegError the server's error; `unanswered` or `unreachable`: the events may or may not have been
   * appended; `closed` or `bad_topic`.
   */
  publish(topic: string | PublishTarget, ...events: unknown[]): Promise<Published>;

  /**
   * Makes a round trip to the server, which returns `data` unchanged. Use it to measure the delay, or to check whether
   * the server answers.
   *
   * @throws ThalwegError as `publish` does.
   */
  request<T>(data: T): Promise<T>;

  /**
   * Sets the preferred transport. Data continues over the transport in use until the first message has arrived over
   * the new one. If the new one fails, the others are tried, and the preferred one is tried again later. `null`
   * restores the order of the options.
   *
   * @throws ThalwegError `closed` or `no_transport`.
   */
  use(transport: TransportName | Transport | null): void;

  /**
   * Connects at once if the session waits for its next attempt (`status.retryAt`): call it from a button beside a
   * countdown. Otherwise the call has no effect.
   *
   * @throws ThalwegError `closed`.
   */
  reconnect(): void;

  /** Closes the session and all of its subscriptions. Its `status` becomes `closed`. */
  close(): void;
}

/** The implementation of a session, between its subscriptions and its route. */
class LiveSession implements Receiver, RouteHooks, DesiredTopics {
  readonly topics = new Map<string, SharedSubscription>();
  declare readonly settings: Settings;
  declare readonly commands: Commands;
  declare readonly route: Route;
  status = IDLE;
  declare readonly flow: FlowControl;
  readonly #unwatchPage: () => void;
  #isHidden = false;
  #isChanging = false;

  constructor(settings: Settings, page: Page) {
    this.settings = settings;
    const twoWay = () => this.route.twoWay;
    this.commands = commands(settings, twoWay);
    this.flow = flowControl(settings.window, twoWay, this.commands.execute);
    this.route = new Route(settings, page, this);
    this.#unwatchPage = page.watch({
      woke: () => this.route.wake(),
      hidden: (isHidden) => {
        if (this.#isHidden === isHidden || !settings.hiddenInterval) return;
        this.#isHidden = isHidden;
        this.changed();
      },
    });
  }

  /** Schedules a change of topics or terms as a microtask after the page's code. Several changes are handled as one. */
  changed(): void {
    if (this.#isChanging) return;
    this.#isChanging = true;
    queueMicrotask(() => {
      this.#isChanging = false;
      this.route.want(this.topics.size > 0 || this.commands.isPending());
      if (this.route.current) this.opened(this.route.current);
      this.route.renew();
    });
  }

  /** Closes an unused connection after the last answer. */
  #changedIfUnused(): void {
    if (!this.topics.size) this.changed();
  }

  // Subscriptions call the following methods.

  subscribe(): void {
    this.changed();
  }

  unsubscribe({ topic }: SharedSubscription): void {
    this.topics.delete(topic);
    this.changed();
  }

  // `receive` and the module for patches call the following methods.

  ended(subscription: SharedSubscription, { code, reason }: Ended): void {
    // The page may have closed the subscription in the meantime.
    if (subscription.state === "closed") return;
    this.route.current?.carried.delete(subscription.topic);
    // This also replaces a one-way connection. Otherwise its next request would name the topic again.
    this.refused(subscription, new ThalwegError(code, reason));
  }

  takeWhole(subscription: SharedSubscription): null {
    subscription.cursor = "latest";
    this.settings.deltas = undefined;
    this.route.pause("patches do not apply", this.flow.drained());
    return null;
  }

  // `plan` and `reconcile` call the following methods.

  intervalOf({ options: { interval = 0 } }: SharedSubscription): number {
    return Math.ceil(this.#isHidden ? Math.max(interval, this.settings.hiddenInterval) : interval);
  }

  refused(subscription: SharedSubscription, error: ThalwegError): void {
    this.topics.delete(subscription.topic);
    subscription.end(error, true);
    this.changed();
  }

  // The route calls the following methods.

  plan(transport: Transport): Promise<ConnectPlan> {
    return plan(transport, this);
  }

  opened(connection: Connection): void {
    reconcile(connection, this);
  }

  received({ carried, transport }: Connection, message: Message, bytes: number): void {
    this.commands.received(message);
    this.#changedIfUnused();
    const subscription = carried.get(message.topic as string)?.by as SharedSubscription | undefined;
    if (!subscription) return;
    // An end has no data that the page must process, so it does not count as unprocessed.
    if (!message.end) this.flow.received(bytes);
    receive(subscription, message, bytes, this);
    if (this.flow.isOver() && !transport.hasBackpressure) {
      // Close the connection until the page has processed its data. The next connection resumes at this position.
      this.route.pause("the page does not keep up", this.flow.drained());
    }
  }

  async refresh(connection: Connection): Promise<void> {
    try {
      const token = await this.settings.token();
      const { expires_in_s } = await this.commands.send(connection, "refresh", { token });
      connection.lasts(expires_in_s === undefined ? null : expires_in_s * 1000);
    } catch {
      // The next connection requests a token again.
    }
  }

  left(connection: Connection): void {
    this.commands.lost(connection);
    this.#changedIfUnused();
  }

  onStatus(next: Status): void {
    if (JSON.stringify(this.status) === JSON.stringify(next)) return;
    this.status = next;
    safely(() => this.settings.onStatus(next));
  }

  end(error: ThalwegError | null): void {
    if (this.status.state === "closed") return;
    this.#unwatchPage();
    this.route.close(error && error.message);
    for (const subscription of this.topics.values()) subscription.end(error, false);
    this.topics.clear();
  }
}

/** Creates a session of a page. Its methods need no `this`, so a page may pass them as callbacks. @internal */
export function open(base: URL, options: ConnectOptions, page: Page): Session {
  const live = new LiveSession(settings(base, options), page);
  return {
    get status() {
      return live.status;
    },
    subscribe<T>(topic: string, options: SubscribeOptions = {}, listener: Listener<T> | null = null) {
      checkOpen(live.status);
      return subscribe(live.topics, live, topic, options, listener);
    },
    map<T>(topic: string, options: KeyedOptions = {}, listener: KeyedListener | null = null) {
      checkOpen(live.status);
      return subscribeMap<T>(live.topics, live, topic, options, listener);
    },
    // Repeats `map`, because a repetition is smaller than a call after compression.
    presence(topic, options = {}, listener = null) {
      checkOpen(live.status);
      return subscribeMap(live.topics, live, `presence/${topic}`, options, listener);
    },
    async publish(target, ...events) {
      checkOpen(live.status);
      const checked = checkTarget(target);
      events.forEach(checkJson);
      return live.commands.publish(checked, events);
    },
    async request<T>(data: T) {
      checkOpen(live.status);
      checkJson(data);
      return (await live.commands.execute("echo", { data }))?.data as T;
    },
    use(wanted) {
      checkOpen(live.status);
      live.route.use(wanted && transport(wanted));
    },
    reconnect() {
      checkOpen(live.status);
      live.route.wake();
    },
    close: () => live.end(null),
  };
}

/**
 * Creates a session with a server. It sends no request before the page subscribes, publishes or calls `request`.
 *
 * ```js
 * const session = connect("https://live.example/", {
 *   token: () => fetchToken(),
 *   onStatus: ({ state, reason }) => {
 *     if (state === "closed" && reason) show(`No longer live: ${reason}`);
 *   },
 * });
 * ```
 *
 * @param url - the server's root, e.g. `"/"` or `"https://live.example/"`.
 * @throws ThalwegError `no_transport` if none of the transports is available here.
 * @throws TypeError if a name in `options.transports` is unknown.
 */
export function connect(url: string | URL = "/", options: ConnectOptions = {}): Session {
  return open(root(url), options, thisPage);
}
