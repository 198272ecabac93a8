/**
 * A session whose connection runs in a Worker. The Worker handles network and JSON; the page receives batches.
 *
 * @packageDocumentation
 */

import { checkOpen, checkTarget } from "./checks.js";
import { safely, ThalwegError } from "./errors.js";
import type { KeyedListener, KeyedOptions } from "./map.js";
import { type ConnectOptions, root } from "./options.js";
import { thisPage } from "./page.js";
import { deserializeError, remote, type SerializedError, serializeError } from "./rpc.js";
import type { Session } from "./session.js";
import { type Owner, type SharedSubscription, subscribe, subscribeMap } from "./sharing.js";
import { IDLE } from "./status.js";
import type { Listener, SubscribeOptions } from "./subscription.js";
import type { TransportName } from "./transports/transport.js";
import type { HostMethods, PageMethods } from "./worker-host.js";

export { ThalwegError };

/**
 * The options of a session in a Worker. They differ from {@link ConnectOptions} in two ways: transports are given by
 * name (a Worker has no forever frame), and the Worker's own `fetch` is used.
 */
export interface WorkerOptions extends Omit<ConnectOptions, "transports" | "fetch"> {
  /** Transports to try, the best first. Those that are not available in a Worker are skipped. */
  transports?: readonly TransportName[];
}

/** The part of `Worker` that a session needs, so that you can pass another implementation. */
export interface WorkerLike {
  /** The session calls it once, with `{ thalweg: MessagePort }`. */
  postMessage(message: unknown, transfer: Transferable[]): void;
  /**
   * The session listens for `error`. If the Worker could not be loaded, the session closes with `no_worker`.
   */
  addEventListener?(type: "error", listener: (event: { message?: string }) => void): void;
}

/**
 * Creates a session with the server at `url` whose connection runs in a Worker. Use it like a session of `connect`.
 *
 * ```js
 * const worker = new Worker(new URL("thalweg/worker-host", import.meta.url), { type: "module" });
 * const session = connectInWorker(worker, "/", { token: () => fetchToken() });
 * ```
 *
 * @param worker - runs the module `thalweg/worker-host`. It may run several sessions.
 */
export function connectInWorker(worker: WorkerLike, url: string | URL = "/", options: WorkerOptions = {}): Session {
  const { token, onStatus, ...plain } = options;
  const base = root(url);
  const { port1: port, port2 } = new MessageChannel();
  const topics = new Map<string, SharedSubscription>();
  const keyed = new Map<number, SharedSubscription>();
  /** Number of batches of each subscription that the page has processed since the last report. */
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
    flow: {
      processed() {
        if (!progress.size) queueMicrotask(report);
        progress.set(key, (progress.get(key) ?? 0) + 1);
      },
      ack() {
        report();
        there.notify("ack", key);
      },
    },
    unsubscribe() {
      forget(key);
      there.notify("unsubscribe", key);
    },
  });

  const failed = (error: unknown): void => {
    if (status.state === "closed") return;
    const serialized = serializeError(error);
    there.end(deserializeError(serialized));
    here.status({ ...IDLE, state: "closed", reason: serialized.message });
    for (const key of [...keyed.keys()]) here.failed(key, serialized);
  };

  const unwatch = thisPage.watch({
    woke: () => there.notify("woke"),
    hidden: (isHidden) => there.notify("hidden", isHidden),
  });
  worker.addEventListener?.("error", ({ message = "the Worker failed to load" }) => {
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
      checkOpen(status);
      return subscribe(topics, ownerOf(++last), topic, options, listener);
    },
    map<T>(topic: string, options: KeyedOptions = {}, listener: KeyedListener | null = null) {
      checkOpen(status);
      return subscribeMap<T>(topics, ownerOf(++last), topic, options, listener);
    },
    async publish(target, ...events) {
      checkOpen(status);
      checkTarget(target);
      return there.call("publish", target, events);
    },
    async request<T>(data: T) {
      checkOpen(status);
      return (await there.call("request", data)) as T;
    },
    use(transport) {
      checkOpen(status);
      if (transport !== null && typeof transport !== "string") {
        throw new ThalwegError("no_transport", `${transport.name} is not available in a Worker`);
      }
      // The Worker knows whether the transport is available. An error is reported as an unhandled rejection.
      void there.call("use", transport);
    },
    reconnect() {
      checkOpen(status);
      there.notify("reconnect");
    },
    close() {
      if (status.state === "closed") return;
      for (const subscription of topics.values()) subscription.end(null, false);
      there.notify("close");
      there.end(new ThalwegError("closed", "the session is closed"));
      here.status({ ...IDLE, state: "closed" });
      port.onmessage = null;
    },
  };
}
