/**
 * The half of a session that runs in a Worker: network, JSON and what is new. A page
 * starts a Worker with this module and gives it to `connectInWorker` of `thalweg/worker`;
 * one Worker can have many sessions.
 *
 * @packageDocumentation
 */

import type { Published } from "./commands.js";
import type { ConnectOptions } from "./options.js";
import type { Page, PageEvents } from "./page.js";
import type { Status } from "./route.js";
import { remote, type SerializedError, serializeError } from "./rpc.js";
import { open, type Session } from "./session.js";
import type { AnySubscription, Batch, SubscribeOptions } from "./subscription.js";
import type { TransportName } from "./transports/transport.js";
import type { Position } from "./wire.js";

/** Options that can be posted. @internal */
export type PlainOptions = Omit<ConnectOptions, "token" | "onStatus" | "fetch" | "transports"> & {
  transports?: readonly TransportName[];
};

/** What a page says. A subscription is known by its key. @internal */
export type HostMethods = {
  open(base: string, options: PlainOptions, recalled: string | null, hasToken: boolean): void;
  subscribe(key: number, topic: string, options: SubscribeOptions): void;
  unsubscribe(key: number): void;
  processed(key: number, position: Position | null, bytes: number): void;
  ack(key: number): void;
  publish(topic: string, events: unknown[]): Promise<Published>;
  request(data: unknown): Promise<unknown>;
  use(transport: TransportName | null): void;
  woke(): void;
  reconnect(): void;
  hidden(isHidden: boolean): void;
  close(): void;
};

/** What a page is told. @internal */
export type PageMethods = {
  batches(batches: readonly [key: number, batch: Batch<unknown>][]): void;
  failed(key: number, error: SerializedError): void;
  status(status: Status): void;
  remember(name: string): void;
  token(): string | Promise<string>;
};

/** A subscription, and how many of its bytes are under way to the page or held there. */
interface Relayed {
  subscription: AnySubscription;
  bytes: number;
}

/**
 * Runs a session for the page at the other end of this port, until the page closes it. A
 * browser's Worker that starts with this module calls it by itself. Call it where messages
 * come some other way: in a Worker of Node, or a SharedWorker.
 */
export function host(port: MessagePort): void {
  let session: Session;
  let events: PageEvents;
  const relayed = new Map<number, Relayed>();
  let due: [number, Batch<unknown>][] = [];

  const here: HostMethods = {
    open(base, options, recalled, hasToken) {
      const page: Page = {
        watch(its) {
          events = its;
          return () => {};
        },
        recall: () => recalled,
        remember: (_, name) => there.notify("remember", name),
      };
      const onStatus = (status: Status): void => there.notify("status", status);
      const token = (): Promise<string> => there.call("token");
      session = open(new URL(base), { ...options, onStatus, ...(hasToken && { token }) }, page);
    },
    subscribe(key, topic, options) {
      try {
        relay(key, session.subscribe(topic, options));
      } catch (error) {
        there.notify("failed", key, serializeError(error));
      }
    },
    unsubscribe(key) {
      const it = relayed.get(key);
      relayed.delete(key);
      it?.subscription.processed(null, it.bytes);
      it?.subscription.close();
    },
    processed(key, position, bytes) {
      const it = relayed.get(key);
      if (!it) return;
      it.bytes -= bytes;
      it.subscription.processed(position, bytes);
    },
    ack: (key) => relayed.get(key)?.subscription.ack(),
    publish: (topic, events) => session.publish(topic, ...events),
    request: (data) => session.request(data),
    use: (transport) => session.use(transport),
    woke: () => events.woke(),
    reconnect: () => session.reconnect(),
    hidden: (isHidden) => events.hidden(isHidden),
    close() {
      session.close();
      port.close();
    },
  };
  const there = remote<PageMethods>(port, here);

  /** What comes is not processed here: it is the page's, which says when it has. */
  const relay = (key: number, subscription: AnySubscription): void => {
    const it = { subscription, bytes: 0 };
    relayed.set(key, it);
    subscription.take = (batch) => {
      it.bytes += batch.bytes;
      // What is read in one go is posted in one go.
      if (!due.length) queueMicrotask(post);
      due.push([key, batch]);
    };
    subscription.fail = (error) => {
      // What has come before it.
      post();
      relayed.delete(key);
      there.notify("failed", key, serializeError(error));
    };
  };

  const post = (): void => {
    if (!due.length) return;
    there.notify("batches", due);
    due = [];
  };
}

/** In a Worker: a session for each port that comes. */
if (typeof WorkerGlobalScope === "function" && self instanceof WorkerGlobalScope) {
  addEventListener("message", ({ data }: MessageEvent<{ thalweg?: MessagePort } | null>) => {
    if (data?.thalweg) host(data.thalweg);
  });
}

declare const WorkerGlobalScope: (new () => object) | undefined;
