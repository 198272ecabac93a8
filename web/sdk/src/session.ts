/**
 * A session with a server: topics, over whichever route there is.
 *
 * One event: a transport's `handlers.text`, its connection, the route, `hooks.received`,
 * `receive` (which takes what is new), the shared subscription's `take`, the listeners or loops of
 * the page's subscriptions, `owner.processed`, and in due time an ack. One subscribe: `subscribe`, `changed`, and
 * `reconcile` sends a command over the connection there is; or the route finds one that
 * carries what `hooks.plan` says.
 */

import { acks } from "./acks.js";
import { backlog } from "./backlog.js";
import { type Commands, commands, type Published } from "./commands.js";
import type { Connection } from "./connection.js";
import { safely, ThalwegError } from "./errors.js";
import { type ConnectOptions, type Settings, settings } from "./options.js";
import { type Page, thisPage } from "./page.js";
import { plan } from "./plan.js";
import { poster } from "./post.js";
import { type Receiver, receive } from "./receive.js";
import { reconcile, type Wanted } from "./reconcile.js";
import { Route, type RouteHooks, type Status } from "./route.js";
import { type SharedSubscription, subscribe } from "./sharing.js";
import { check, type Listener, type SubscribeOptions, type Subscription } from "./subscription.js";
import { transport } from "./transports/order.js";
import type { Transport, TransportName } from "./transports/transport.js";

/**
 * A session with a server. It connects when it is first needed, reconnects by itself, and
 * resumes where it was: nothing is lost and nothing repeated that the server still has. What
 * the server no longer has is reported as a {@link Gap}.
 */
export interface Session {
  /** The latest status. */
  readonly status: Status;

  /**
   * Subscribes to a topic. Several subscriptions to one topic share one on the wire, which lasts until
   * the last of them is closed. Each has its own `position`, and batches of its own to process.
   *
   * A subscription that joins others begins with the next batch that comes, and on a value topic with the newest
   * version that the session has. It cannot begin elsewhere, unless `from` is exactly where the others
   * are. The first subscription's `interval` and `policy` hold for all: leave them out or give the same.
   * The bytes of a batch count as processed (for the window and acks) when all have processed it: the slowest
   * subscription to a topic decides how far the server may be ahead.
   *
   * ```js
   * const cars = session.subscribe("cars", { from: "earliest" }, ({ events, gap, position }) => {
   *   if (gap) console.warn("missed", gap.missed, gap.reason);
   *   for (const event of events) show(event);
   *   localStorage.cars = position;
   * });
   * ```
   *
   * @param listener - processes each batch; without one, take the batches with `for await`.
   * @throws ThalwegError `closed`, `bad_topic`, `bad_cursor`; `already_subscribed` if it cannot join the
   * others on these terms: the message names the remedy.
   */
  subscribe<T = unknown>(topic: string, options?: SubscribeOptions, listener?: Listener<T> | null): Subscription<T>;

  /**
   * Publishes an event, or several in order.
   *
   * Over a WebSocket they are sent once. By `POST` (over other transports, and while there is
   * no connection) one event is sent up to six times until it is answered, with an idempotency
   * key: the server appends it once. Several events are sent once.
   *
   * @throws ThalwegError what the server refuses; `unanswered` or `unreachable`: the events
   * may or may not have been appended; `closed` or `bad_topic`.
   */
  publish(topic: string, ...events: unknown[]): Promise<Published>;

  /**
   * A round trip to the server, which returns `data` as it is: to measure, and to see whether
   * the server answers.
   *
   * @throws ThalwegError as `publish`.
   */
  request<T>(data: T): Promise<T>;

  /**
   * Makes this transport the preferred one. Data goes on over the transport in use until the
   * first message has arrived over the new one. Should the new one fail, the others are
   * tried, and it is tried again later. `null`: the order of the options holds again.
   *
   * @throws ThalwegError `closed` or `no_transport`.
   */
  use(transport: TransportName | Transport | null): void;

  /**
   * Connects at once, where the session waits for its next attempt (`status.retryAt`): for a button
   * beside a countdown. Does nothing otherwise.
   *
   * @throws ThalwegError `closed`.
   */
  reconnect(): void;

  /** Ends the session and all of its subscriptions; `status` is `closed` from now on. */
  close(): void;
}

/** How it is before anything is wanted. @internal */
export const IDLE: Status = { state: "idle", transport: null, reason: null };

/** @internal */
export function open(base: URL, options: ConnectOptions, page: Page): Session {
  const config = settings(base, options);
  const topics = new Map<string, SharedSubscription>();
  const unprocessed = backlog();
  const post = poster(config);
  const twoWay = () => route.twoWay;
  const command = commands(twoWay, post, config.idleTimeout);
  const ack = acks(config.window, twoWay, command.execute);
  let status = IDLE;
  let isHidden = false;
  /** Whether a change is acted on as soon as the page's code has run. */
  let isChanging = false;

  /** Topics or terms are others than before; several changes are one. */
  const changed = (): void => {
    if (isChanging) return;
    isChanging = true;
    queueMicrotask(() => {
      isChanging = false;
      route.want(topics.size > 0 || command.isPending());
      if (route.current) hooks.opened(route.current);
      route.renew();
    });
  };

  /** What has come, or will not, may have been what the connection was still kept for. */
  const changedIfUnused = (): void => {
    if (!topics.size) changed();
  };

  /** What connections are to carry. */
  const wanted: Wanted = {
    topics,
    settings: config,
    send: command.send,
    intervalOf: ({ options: { interval = 0 } }) =>
      Math.ceil(isHidden ? Math.max(interval, config.hiddenInterval) : interval),
    refused(subscription, error) {
      topics.delete(subscription.topic);
      subscription.end(error, true);
      changed();
    },
  };

  /** What subscriptions tell. */
  const owner: Receiver = {
    subscribe: changed,
    processed(subscription, bytes) {
      unprocessed.done(bytes);
      if (!subscription.isOver) ack.processed(subscription, bytes);
    },
    ack: ack.request,
    unsubscribe({ topic }) {
      topics.delete(topic);
      changed();
    },
    ended(subscription, { code, reason }) {
      // It may have been given up meanwhile.
      if (subscription.isOver) return;
      route.current?.carried.delete(subscription.topic);
      // A one-way connection is replaced: its polls would ask for the topic again.
      wanted.refused(subscription, new ThalwegError(code, reason));
    },
    settings: config,
    connection: () => route.current,
    changed,
    takeWhole(subscription) {
      subscription.cursor = "latest";
      config.deltas = undefined;
      route.pause("no patches", unprocessed.drained());
      return null;
    },
  };

  /** What the route tells, and asks. */
  const hooks: RouteHooks = {
    plan: (transport) => plan(transport, wanted, post),
    opened: (connection) => reconcile(connection, wanted),
    received({ carried, transport }, message, bytes) {
      command.received(message);
      changedIfUnused();
      const subscription = carried.get(message.topic as string)?.by as SharedSubscription | undefined;
      if (!subscription) return;
      // An end is no work for the page.
      if (!message.end) unprocessed.add(bytes);
      receive(subscription, message, bytes, owner);
      if (unprocessed.isOver() && !transport.hasBackpressure) {
        // Nothing more is taken in until the page has caught up; the server goes on from here.
        route.pause("the page does not keep up", unprocessed.drained());
      }
    },
    drained: unprocessed.drained,
    expiring(connection) {
      // One that cannot be told is replaced by one with the next token.
      if (connection.transport.isTwoWay) void refresh(connection, config.token, command.send);
      else route.renew();
    },
    left(connection) {
      command.lost(connection);
      changedIfUnused();
    },
    onStatus(next) {
      if (JSON.stringify(status) === JSON.stringify(next)) return;
      status = next;
      safely(() => config.onStatus(next));
    },
    end(error) {
      if (status.state === "closed") return;
      unwatchPage();
      route.close(error && error.message);
      for (const subscription of topics.values()) subscription.end(error, false);
      topics.clear();
    },
  };

  const route = new Route(config, page, hooks);
  const unwatchPage = page.watch({
    woke: () => route.wake(),
    hidden(is) {
      if (isHidden === is || !config.hiddenInterval) return;
      isHidden = is;
      changed();
    },
  });

  return {
    get status() {
      return status;
    },
    subscribe<T>(topic: string, options: SubscribeOptions = {}, listener: Listener<T> | null = null) {
      check(status, topic);
      return subscribe(topics, owner, topic, options, listener);
    },
    async publish(topic, ...events) {
      check(status, topic);
      events.forEach(checkJson);
      return command.publish(topic, events);
    },
    async request<T>(data: T) {
      check(status);
      checkJson(data);
      return (await command.execute("echo", { data }))?.data as T;
    },
    use(wanted) {
      check(status);
      route.use(wanted && transport(wanted));
    },
    reconnect() {
      check(status);
      route.wake();
    },
    close: () => hooks.end(null),
  };
}

/** Whether this can be written as JSON; of bytes `JSON.stringify` makes an object of numbers. @throws ThalwegError */
function checkJson(value: unknown): void {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    throw new ThalwegError("bad_event", "bytes are no JSON: give base64 or Array.from(bytes)");
  }
  if (["undefined", "function", "symbol"].includes(typeof value)) {
    throw new ThalwegError("bad_event", `${typeof value} is no JSON: give null or leave it out`);
  }
}

/** Gives a connection the page's next token. If it cannot, the connection ends with the one it has. */
async function refresh(connection: Connection, next: Settings["token"], send: Commands["send"]): Promise<void> {
  try {
    const token = await next();
    const { expires_in_s } = await send(connection, "refresh", { token });
    connection.lasts(expires_in_s === undefined ? null : expires_in_s * 1000);
  } catch {
    // The next connection asks for a token again.
  }
}

/** The server's root as seen from here; what is below it stays below it. @internal */
export function root(url: string | URL): URL {
  const base = new URL(url, globalThis.location?.href);
  // Whichever transport is tried: its own scheme follows from this one.
  base.protocol = base.protocol.replace("ws", "http");
  base.pathname = base.pathname.replace(/\/?$/, "/");
  return base;
}

/**
 * Makes a session with a server. It sends nothing before the page subscribes, publishes or
 * requests something.
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
 * @throws ThalwegError `no_transport` if none of the transports exists here.
 * @throws TypeError if no transport is called as one of `options.transports`.
 */
export function connect(url: string | URL = "/", options: ConnectOptions = {}): Session {
  return open(root(url), options, thisPage);
}
