/** A session with a server: topics, over whichever route there is. */

import { acks } from "./acks.js";
import { backlog } from "./backlog.js";
import { commands } from "./commands.js";
import type { Connection } from "./connection.js";
import { safely, type ThalwegError } from "./errors.js";
import { type Page, thisPage } from "./page.js";
import { route, type Status } from "./route.js";
import {
  type AnySubscription,
  check,
  createSubscription,
  type Listener,
  type Owner,
  type SubscribeOptions,
  type Subscription,
} from "./subscription.js";
import { DEFAULT_ORDER, HIGH_VOLUME_ORDER, transport } from "./transports/order.js";
import type { Transport, TransportName } from "./transports/transport.js";
import type { Position } from "./wire.js";

/** What a session may be told. All of it can be left out. */
export interface ConnectOptions {
  /** Transports to try, the best first; those that do not exist here are passed over. */
  transports?: readonly (TransportName | Transport)[];
  /** `high`: much data in one direction; HTTP streaming is tried first. */
  volume?: "normal" | "high";
  /** Gives a token; asked again for each connection and request. */
  token?: () => string | Promise<string>;
  /**
   * WebSocket: bytes of each topic that the server may be ahead of what this page has
   * processed. 0: no bound but the network's. 262,144 if left out.
   */
  window?: number;
  /** A hidden tab is content with a batch in so many ms; 0: it is not. 2,000 if left out. */
  hiddenInterval?: number;
  /** How long a connection may take to say its first word, and its ticket to come, ms. 5,000 if left out. */
  connectTimeout?: number;
  /**
   * How long a connection may be silent, and a `POST` unanswered, ms: more than twice the
   * server's heartbeat interval. 60,000 if left out.
   */
  idleTimeout?: number;
  /** Hears of every change. */
  onStatus?: (status: Status) => void;
  /** Instead of the platform's. */
  fetch?: typeof fetch;
}

/** What a publish came to. */
export interface Published {
  /** Where it was published. */
  topic: string;
  /** Of the last of the events. */
  position: Position;
  /** Offset of the first of them. */
  first: number;
  /** How many there were. */
  count: number;
}

/**
 * A session with a server. It connects when it is first needed, comes back by itself, and
 * goes on where it was: nothing is lost and nothing repeated that the server still has.
 */
export interface Session {
  /** How it is. */
  readonly status: Status;

  /**
   * Subscribes to a topic, once per session.
   *
   * @param listener - processes each batch; without one, take them with `for await`.
   * @throws ThalwegError `closed`, `bad_topic`, `bad_cursor` or `already_subscribed`.
   */
  subscribe<T = unknown>(topic: string, options?: SubscribeOptions, listener?: Listener<T> | null): Subscription<T>;

  /**
   * Publishes an event, or several in order. One event is repeated, with a key that makes
   * the server append it once, until it is answered or six times; over a WebSocket, and
   * several, once.
   */
  publish(topic: string, ...events: unknown[]): Promise<Published>;

  /** A round trip: what is sent comes back. */
  request<T>(data: T): Promise<T>;

  /**
   * Makes this transport the best one while data flows: it takes over as soon as something
   * arrives over it. Should it fail, the others are tried and it is come back to. `null`
   * goes back to the order there was.
   */
  use(transport: TransportName | Transport | null): void;

  /** Ends it, and all of its subscriptions. */
  close(): void;
}

const WINDOW_BYTES = 256 * 1024;
const HIDDEN_INTERVAL_MS = 2000;
const CONNECT_TIMEOUT_MS = 5000;
const IDLE_TIMEOUT_MS = 60_000;
/** Eleven days: a timer for more than 24 would end at once. */
const MOST_MS = 1e9;

/** How it is before anything is wanted. @internal */
export const IDLE: Status = { state: "idle", transport: null, reason: null };

/** @internal */
export function open(base: URL, options: ConnectOptions, page: Page): Session {
  const {
    volume,
    window: windowBytes = WINDOW_BYTES,
    hiddenInterval = HIDDEN_INTERVAL_MS,
    connectTimeout = CONNECT_TIMEOUT_MS,
    idleTimeout = IDLE_TIMEOUT_MS,
    fetch: request = (...given) => fetch(...given),
  } = options;
  const connectTimeoutMs = Math.min(connectTimeout, MOST_MS);
  const idleTimeoutMs = Math.min(idleTimeout, MOST_MS);
  const topics = new Map<string, AnySubscription>();
  const held = backlog();
  let status = IDLE;
  let isHidden = false;
  let isChanging = false;

  const token = async (): Promise<string | null> => (await options.token?.()) ?? null;
  const { send, receive, isWaiting, lost, post } = commands(base, request, token);

  /** The connection, if commands go over it. */
  const twoWay = (): Connection | null => {
    const current = way.current();
    return current?.isWorking && current.isOpen ? current : null;
  };

  const command = async (name: string, members: object) => {
    const by = twoWay();
    if (by) return send(by, name, members);
    return (await post("v1/commands", JSON.stringify({ command: name, ...members }), idleTimeoutMs)).answer;
  };

  const processed = acks(windowBytes, (subscription, isTold) => {
    const { topic, position } = subscription;
    const by = twoWay();
    if (by?.carried.get(topic)?.by === subscription) by.send(JSON.stringify({ command: "ack", topic, position }));
    else if (!by && isTold) command("ack", { topic, position }).catch(() => {});
  });

  const owner: Owner = {
    processed(subscription, bytes) {
      held.done(bytes);
      processed(subscription, windowBytes && twoWay() ? bytes : 0);
    },
    ack: (subscription) => processed(subscription, Infinity),
    unsubscribe({ topic }) {
      topics.delete(topic);
      change();
    },
  };

  const intervalOf = ({ options: { interval = 0 } }: AnySubscription): number =>
    Math.ceil(isHidden ? Math.max(interval, hiddenInterval) : interval);

  /** Brings what a two-way connection carries to what is wanted. */
  const tell = (connection: Connection): void => {
    const { carried } = connection;
    if (!connection.isOpen) return;
    for (const [topic, it] of carried) {
      const subscription = topics.get(topic);
      if (it.interval === null || (subscription === it.by && intervalOf(subscription) === it.interval)) continue;
      it.interval = null;
      // Until this is answered there comes what was sent before: not for whoever is next.
      const left = (): void => {
        if (carried.get(topic) === it) carried.delete(topic);
        tell(connection);
      };
      send(connection, "unsubscribe", { topic }).then(left, left);
    }
    for (const subscription of topics.values()) {
      const { topic, cursor, options } = subscription;
      if (carried.has(topic)) continue;
      const interval = intervalOf(subscription);
      carried.set(topic, { by: subscription, interval });
      const wanted = {
        topic,
        cursor,
        policy: options.policy,
        interval: text(interval, "ms"),
        window: text(windowBytes, ""),
      };
      send(connection, "subscribe", wanted).catch((error: ThalwegError) => {
        // What was not done here is asked for again over the next connection.
        if (!connection.isOpen || error.code === "draining" || topics.get(topic) !== subscription) return;
        topics.delete(topic);
        carried.delete(topic);
        subscription.fail(error, true);
        change();
      });
    }
  };

  /** Topics or terms are others than before; several changes are one. */
  const change = (): void => {
    if (isChanging) return;
    isChanging = true;
    queueMicrotask(() => {
      isChanging = false;
      way.want(topics.size > 0 || isWaiting());
      const current = way.current();
      if (current) tell(current);
      way.renew();
    });
  };

  /** What has come, or will not, may have been what the connection was still kept for. */
  const rest = (): void => {
    if (!topics.size) change();
  };

  /** For good: because of an error, or because the page says so. */
  const end = (error: ThalwegError | null): void => {
    if (status.state === "closed") return;
    unwatch();
    way.close(error && error.message);
    for (const subscription of [...topics.values()]) {
      if (error) subscription.fail(error, false);
      else subscription.close();
    }
    topics.clear();
  };

  const order = volume === "high" ? HIGH_VOLUME_ORDER : DEFAULT_ORDER;
  const way = route(
    base,
    options.transports?.map(transport) ?? order,
    page,
    {
      async plan({ hasHeaders }) {
        const shown = await token();
        const ticket = shown && !hasHeaders ? (await post("v1/tickets", "", connectTimeoutMs, shown)).ticket : null;
        const all = [...topics.values()];
        // A one-way transport has the same for all of them.
        const interval = text(Math.min(...all.map(intervalOf)), "ms");
        const [policy, ...others] = new Set(all.map((it) => it.options.policy));
        const terms = { interval, policy: others.length ? undefined : policy };
        return { base, topics: all, terms, token: shown, ticket, fetch: request };
      },
      opened: tell,
      received({ carried, transport }, message, bytes) {
        receive(message);
        rest();
        const subscription = carried.get(message.topic as string)?.by as AnySubscription | undefined;
        if (!subscription) return;
        held.add(bytes);
        subscription.receive(message, bytes);
        if (held.isOver() && !transport.hasBackpressure) {
          // Nothing more is taken in until the page has caught up; the server goes on from here.
          way.pause("the page does not keep up", held.drained());
        }
      },
      drained: held.drained,
      left(by) {
        lost(by);
        rest();
      },
      status(next) {
        if (JSON.stringify(status) === JSON.stringify(next)) return;
        status = next;
        safely(() => options.onStatus?.(next));
      },
      failed: end,
    },
    connectTimeoutMs,
    idleTimeoutMs,
  );

  const unwatch = page.watch({
    woke: way.wake,
    hidden(is) {
      if (isHidden === is || !hiddenInterval) return;
      isHidden = is;
      change();
    },
  });

  return {
    get status() {
      return status;
    },
    subscribe<T>(topic: string, options: SubscribeOptions = {}, listener: Listener<T> | null = null) {
      check(status, topic);
      const subscription = createSubscription(topics, owner, topic, options, listener);
      change();
      return subscription;
    },
    async publish(topic, ...events) {
      check(status, topic);
      const by = twoWay();
      if (by) return (await send(by, "publish", { topic, events })) as Published;
      const lines = events.map((event) => JSON.stringify(event)).join("\n");
      // What no other publish has. A page that is not secure has no `crypto.randomUUID`.
      const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
      const how = events.length === 1 ? [undefined, key] : ["application/x-ndjson"];
      return (await post(`v1/topics/${topic}`, lines, idleTimeoutMs, null, ...how)) as Published;
    },
    async request<T>(data: T) {
      check(status);
      return (await command("echo", { data }))?.data as T;
    },
    use(wanted) {
      check(status);
      way.use(wanted && transport(wanted));
    },
    close: () => end(null),
  };
}

/** As it is written on the wire; what is 0 is left out. */
function text(value: number, unit: string): string | undefined {
  return value ? value + unit : undefined;
}

/** The server's root as seen from here; what is below it stays below it. @internal */
export function root(url: string | URL): URL {
  const base = new URL(url, globalThis.location?.href);
  base.pathname = base.pathname.replace(/\/?$/, "/");
  return base;
}

/**
 * A session with the server at `url`: its root, e.g. `"/"` or `"https://live.example/"`.
 * Nothing is sent before something is wanted.
 */
export function connect(url: string | URL = "/", options: ConnectOptions = {}): Session {
  return open(root(url), options, thisPage);
}
