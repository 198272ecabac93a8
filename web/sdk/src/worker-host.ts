/**
 * The part of a session that runs in a Worker: network, JSON, and the detection of new events. A page starts a Worker
 * with this module and passes it to `connectInWorker` of `thalweg/worker`. One Worker can run many sessions.
 *
 * @packageDocumentation
 */

import type { Page, PageEvents } from "./page.js";
import { remote, serializeError } from "./rpc.js";
import { open, type Session } from "./session.js";
import type { Status } from "./status.js";
import type { AnySubscription, Batch } from "./subscription.js";
import { hostTabs } from "./tabs-host.js";
import type { HostMethods, PageMethods } from "./worker-methods.js";

/**
 * Runs a session for the page at the other end of this port, until the page closes it. A browser's Worker that starts
 * with this module calls this function on its own. Call it yourself in a Worker of Node or in a SharedWorker.
 */
export function host(port: MessagePort): void {
  let session: Session;
  let events: PageEvents;
  const relayed = new Map<number, AnySubscription>();
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
      relayed.get(key)?.close();
      relayed.delete(key);
    },
    processed(key, count) {
      const subscription = relayed.get(key);
      for (; subscription && count; count--) subscription.processed();
    },
    ack: (key) => relayed.get(key)?.ack(),
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

  /** Passes batches on to the page, which reports when it has processed them. */
  const relay = (key: number, subscription: AnySubscription): void => {
    relayed.set(key, subscription);
    subscription.take = (batch) => {
      // Batches that are read in one task are posted together.
      if (!due.length) queueMicrotask(post);
      due.push([key, batch]);
    };
    subscription.fail = (error) => {
      // The batches before the error go first.
      post();
      relayed.delete(key);
      // The page's unprocessed batches no longer count here.
      subscription.close();
      there.notify("failed", key, serializeError(error));
    };
  };

  const post = (): void => {
    if (!due.length) return;
    there.notify("batches", due);
    due = [];
  };
}

/** The message with which a page begins. */
interface HostStart {
  thalweg?: MessagePort;
  thalwegTabs?: Parameters<typeof hostTabs>;
}

/** In a Worker: runs a session for each port that a page sends, or one for the tabs with this name. */
if (typeof WorkerGlobalScope === "function" && self instanceof WorkerGlobalScope) {
  addEventListener("message", ({ data }: MessageEvent<HostStart | null>) => {
    if (data?.thalweg) host(data.thalweg);
    if (data?.thalwegTabs) hostTabs(...data.thalwegTabs);
  });
}

declare const WorkerGlobalScope: (new () => object) | undefined;
