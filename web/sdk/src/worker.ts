/**
 * A session whose connection runs in a Worker, which does the network and the JSON; the page
 * gets batches.
 *
 * @packageDocumentation
 */

import { safely, ThalwegError } from "./errors.js";
import type { ConnectOptions } from "./options.js";
import { thisPage } from "./page.js";
import { deserializeError, remote, type SerializedError, serializeError } from "./rpc.js";
import { IDLE, root, type Session } from "./session.js";
import { type Owner, type SharedSubscription, subscribe } from "./sharing.js";
import { check, type Listener, type SubscribeOptions } from "./subscription.js";
import type { TransportName } from "./transports/transport.js";
import type { HostMethods, PageMethods } from "./worker-host.js";

export { ThalwegError };

/**
 * Options of a session in a Worker: as {@link ConnectOptions}, but transports by their names
 * (there is no forever frame in a Worker), and without `fetch`: the Worker's own is used.
 */
export interface WorkerOptions extends Omit<ConnectOptions, "transports" | "fetch"> {
  /** Transports to try, the best first; those that do not exist in a Worker are left out. */
  transports?: readonly TransportName[];
}

/** What a Worker must have: a `Worker` of a browser does. */
export interface WorkerLike {
  /** Called once for each session, with a `MessagePort` as `message.thalweg`. */
  postMessage(message: unknown, transfer: Transferable[]): void;
  /** Tells that the Worker could not be loaded: the session is then closed with `no_worker`. */
  addEventListener?(type: "error", listener: (event: { message?: string }) => void): void;
}

/**
 * Makes a session with the server at `url` whose connection runs in a Worker. It is used like
 * one of `connect`.
 *
 * ```js
 * const worker = new Worker(new URL("thalweg/worker-host", import.meta.url), { type: "module" });
 * const session = connectInWorker(worker, "/", { token: () => fetchToken() });
 * ```
 *
 * @param worker - runs the module `thalweg/worker-host`; it may have several sessions.
 */
export function connectInWorker(worker: WorkerLike, url: string | URL = "/", options: WorkerOptions = {}): Session {
  const { token, onStatus, ...plain } = options;
  const base = root(url);
  const { port1: port, port2 } = new MessageChannel();
  const topics = new Map<string, SharedSubscription>();
  const keyed = new Map<number, SharedSubscription>();
  /** How many batches of each have been processed since that was last reported. */
  const progress = new Map<number, number>();
  let status = IDLE;
  let last = 0;

  const here: PageMethods = {
    batches(batches) {
      for (const [key, batch] of batches) keyed.get(key)?.take(batch);
    },
    failed(key, error: SerializedError) {
      const subscription = keyed.get(key);
      forget(key);
      subscription?.end(deserializeError(error), status.state !== "closed");
    },
    status(next) {
      status = next;
      if (next.state === "closed") unwatch();
      safely(() => onStatus?.(next));
    },
    remember: (name) => thisPage.remember(base.origin, name),
    token: () => token?.() ?? "",
  };
  const there = remote<HostMethods>(port, here);

  const forget = (key: number): void => {
    const topic = keyed.get(key)?.topic;
    keyed.delete(key);
    if (topic !== undefined) topics.delete(topic);
  };

  /** One message to the Worker for all that was processed in one go. */
  const report = (): void => {
    for (const [key, count] of progress) there.notify("processed", key, count);
    progress.clear();
  };

  const ownerOf = (key: number): Owner => ({
    subscribe(shared) {
      keyed.set(key, shared);
      const { onError: _, ...terms } = shared.options;
      there.notify("subscribe", key, shared.topic, terms);
    },
    processed() {
      if (!progress.size) queueMicrotask(report);
      progress.set(key, (progress.get(key) ?? 0) + 1);
    },
    ack() {
      report();
      there.notify("ack", key);
    },
    unsubscribe() {
      forget(key);
      there.notify("unsubscribe", key);
    },
  });

  const failed = (error: unknown): void => {
    if (status.state === "closed") return;
    const its = serializeError(error);
    there.end(deserializeError(its));
    here.status({ ...IDLE, state: "closed", reason: its.message });
    for (const key of [...keyed.keys()]) here.failed(key, its);
  };

  const unwatch = thisPage.watch({
    woke: () => there.notify("woke"),
    hidden: (isHidden) => there.notify("hidden", isHidden),
  });
  worker.addEventListener?.("error", ({ message = "the Worker does not load" }) => {
    if (!hasOpened) failed(new ThalwegError("no_worker", message));
  });
  let hasOpened = false;
  worker.postMessage({ thalweg: port2 }, [port2]);
  there.call("open", base.href, plain, thisPage.recall(base.origin), token !== undefined).then(() => {
    hasOpened = true;
  }, failed);

  return {
    get status() {
      return status;
    },
    subscribe<T>(topic: string, options: SubscribeOptions = {}, listener: Listener<T> | null = null) {
      check(status, topic);
      return subscribe(topics, ownerOf(++last), topic, options, listener);
    },
    async publish(topic, ...events) {
      check(status, topic);
      return there.call("publish", topic, events);
    },
    async request<T>(data: T) {
      check(status);
      return (await there.call("request", data)) as T;
    },
    use(transport) {
      check(status);
      if (transport !== null && typeof transport !== "string") {
        throw new ThalwegError("no_transport", `${transport.name} does not exist in a Worker`);
      }
      // Whether it exists there is known later: an error is said where pages look.
      void there.call("use", transport);
    },
    reconnect() {
      check(status);
      there.notify("reconnect");
    },
    close() {
      if (status.state === "closed") return;
      unwatch();
      for (const subscription of topics.values()) subscription.end(null, false);
      there.notify("close");
      there.end(new ThalwegError("closed", "the session is closed"));
      here.status({ ...IDLE, state: "closed" });
      port.onmessage = null;
    },
  };
}
