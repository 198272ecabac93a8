/** The page's part of a session that runs elsewhere: in a Worker of this page, or of another tab. */

import { checkOpen, checkTarget } from "./checks.js";
import { safely, ThalwegError } from "./errors.js";
import type { KeyedListener, KeyedOptions } from "./map.js";
import type { ConnectOptions } from "./options.js";
import { thisPage } from "./page.js";
import { deserializeError, type Remote, type SerializedError, serializeError } from "./rpc.js";
import type { Session } from "./session.js";
import { type Owner, type SharedSubscription, subscribe, subscribeMap } from "./sharing.js";
import { IDLE } from "./status.js";
import type { Batch, Changes, Listener, SubscribeOptions } from "./subscription.js";
import type { TransportName } from "./transports/transport.js";
import type { HostMethods, PageMethods } from "./worker-methods.js";

/**
 * The options of a session in a Worker. They differ from {@link ConnectOptions} in two ways: transports are given by
 * name (a Worker has no forever frame), and the Worker's own `fetch` is used.
 */
export interface WorkerOptions extends Omit<ConnectOptions, "transports" | "fetch"> {
  /** Transports to try, the best first. Those that are not available in a Worker are skipped. */
  transports?: readonly TransportName[];
}

/** A topic as the host knows it. */
interface Relayed {
  /** The number of the subscription. Each host gets another one. */
  key: number;
  readonly shared: SharedSubscription;
  /** The key under which each unprocessed batch arrived: an earlier host may have sent it. */
  readonly from: number[];
  /** Whether the host has not yet sent the whole state of a map. */
  isFresh: boolean;
}

/** @internal */
export interface PageSession {
  readonly session: Session;
  /** The methods that a host calls. */
  readonly here: PageMethods;
  /** Continues with a host: subscribes to all topics after the events that the page has. */
  attach(there: Remote<HostMethods>): Promise<void>;
  /**
   * The host is gone: calls fail, and topics wait for the next one.
   * @param reason - of the status `waiting`.
   * @param retryAt - the time of the next attempt to start a host, if one has failed.
   */
  detach(reason: string, retryAt?: number): void;
  failed(error: unknown): void;
}

/**
 * @param ended - called when the session is closed, by the page or because it failed.
 * @param closed - called when the page has closed the session.
 * @internal
 */
export function pageSession(
  base: URL,
  options: WorkerOptions,
  closed: () => void,
  ended: () => void = () => {},
): PageSession {
  const { token, onStatus, ...plain } = options;
  const topics = new Map<string, SharedSubscription>();
  const keyed = new Map<number, Relayed>();
  /** Number of batches of each subscription that the page has processed since the last report. */
  const progress = new Map<number, number>();
  let there: Remote<HostMethods> | null = null;
  let found: () => void;
  let host = new Promise<void>((resolve) => (found = resolve));
  let status = IDLE;
  let isHidden = false;
  let last = 0;

  const here: PageMethods = {
    ready() {},
    batches(batches) {
      for (const [key, batch] of batches) {
        const relayed = keyed.get(key);
        relayed?.from.push(key);
        relayed?.shared.take(completed(relayed, batch));
      }
    },
    confirmed(key, position) {
      const shared = keyed.get(key)?.shared;
      if (!shared || shared.options.isMap) return;
      shared.cursor = position;
      shared.confirm();
    },
    restarts(key) {
      const relayed = keyed.get(key);
      if (relayed) relayed.isFresh = true;
    },
    failed(key, error: SerializedError) {
      const shared = keyed.get(key)?.shared;
      if (!shared) return;
      forget(key, shared);
      shared.end(deserializeError(error), status.state !== "closed");
    },
    status(next) {
      status = next;
      if (next.state === "closed") {
        unwatch();
        ended();
        // Calls that wait for a host fail.
        found();
      }
      safely(() => onStatus?.(next));
    },
    remember: (name) => thisPage.remember(base.origin, name),
    token: () => token?.() ?? "",
  };

  const forget = (key: number, { topic }: SharedSubscription): void => {
    keyed.delete(key);
    topics.delete(topic);
  };

  const report = (): void => {
    for (const [key, count] of progress) there?.notify("processed", key, count);
    progress.clear();
  };

  const send = ({ key, shared }: Relayed): void => {
    const { onError: _, from: __, ...terms } = shared.options;
    there?.notify("subscribe", key, shared.topic, { ...terms, ...(!terms.isMap && { from: shared.cursor }) });
  };

  const owner = (): Owner => {
    let relayed: Relayed;
    let processed: number | undefined;
    return {
      subscribe(shared) {
        relayed = { key: ++last, shared, from: [], isFresh: false };
        keyed.set(relayed.key, relayed);
        send(relayed);
      },
      flow: {
        processed() {
          if (!progress.size) queueMicrotask(report);
          processed = relayed.from.shift() as number;
          progress.set(processed, (progress.get(processed) ?? 0) + 1);
        },
        ack() {
          report();
          // The host has not sent the acked batch, and a batch of its own may be unprocessed.
          if (processed !== relayed.key && relayed.from.length) return;
          there?.notify("ack", relayed.key);
        },
      },
      unsubscribe(shared) {
        forget(relayed.key, shared);
        there?.notify("unsubscribe", relayed.key);
      },
    };
  };

  /** Calls the host, now or when there is one. */
  const call = (async (...given) => {
    while (!there) {
      await host;
      checkOpen(status);
    }
    return there.call(...given);
  }) as Remote<HostMethods>["call"];

  const unwatch = thisPage.watch({
    woke: () => there?.notify("woke"),
    hidden(next) {
      isHidden = next;
      there?.notify("hidden", next);
    },
  });

  return {
    here,
    attach(next) {
      there = next;
      const opened = next.call("open", base.href, plain, thisPage.recall(base.origin), token !== undefined);
      if (isHidden) next.notify("hidden", true);
      progress.clear();
      for (const relayed of [...keyed.values()]) {
        keyed.delete(relayed.key);
        Object.assign(relayed, { key: ++last, isFresh: true });
        keyed.set(relayed.key, relayed);
        send(relayed);
      }
      found();
      return opened;
    },
    detach(reason, retryAt) {
      if (!there && !retryAt) return;
      if (there) {
        there.end(new ThalwegError("unanswered", `${reason} before the answer arrived`));
        there = null;
        host = new Promise<void>((resolve) => (found = resolve));
      }
      if (!["idle", "closed"].includes(status.state)) here.status({ ...IDLE, state: "waiting", reason, retryAt });
    },
    failed(error) {
      if (status.state === "closed") return;
      const serialized = serializeError(error);
      there?.end(deserializeError(serialized));
      here.status({ ...IDLE, state: "closed", reason: serialized.message });
      for (const key of [...keyed.keys()]) here.failed(key, serialized);
    },
    session: {
      get status() {
        return status;
      },
      subscribe<T>(topic: string, options: SubscribeOptions = {}, listener: Listener<T> | null = null) {
        checkOpen(status);
        return subscribe(topics, owner(), topic, options, listener);
      },
      map<T>(topic: string, options: KeyedOptions = {}, listener: KeyedListener | null = null) {
        checkOpen(status);
        return subscribeMap<T>(topics, owner(), topic, options, listener);
      },
      presence(topic, options = {}, listener = null) {
        checkOpen(status);
        return subscribeMap(topics, owner(), `presence/${topic}`, options, listener);
      },
      async publish(target, ...events) {
        checkOpen(status);
        checkTarget(target);
        return call("publish", target, events);
      },
      async request<T>(data: T) {
        checkOpen(status);
        return (await call("request", data)) as T;
      },
      use(transport) {
        checkOpen(status);
        if (transport !== null && typeof transport !== "string") {
          throw new ThalwegError("no_transport", `${transport.name} is not available in a Worker`);
        }
        // The Worker knows whether the transport is available. An error is reported as an unhandled rejection.
        void call("use", transport);
      },
      reconnect() {
        checkOpen(status);
        there?.notify("reconnect");
      },
      close() {
        if (status.state === "closed") return;
        for (const shared of topics.values()) shared.end(null, false);
        there?.notify("close");
        there?.end(new ThalwegError("closed", "the session is closed"));
        here.status({ ...IDLE, state: "closed" });
        closed();
      },
    },
  };
}

/** Adds the keys that were removed while there was no host to the first state of a map. */
function completed(relayed: Relayed, batch: Batch<unknown>): Batch<unknown> {
  const changes = batch as Batch<unknown> & Partial<Changes>;
  if (!relayed.isFresh || !changes.isWhole) return batch;
  relayed.isFresh = false;
  const keys = new Set(changes.changed);
  const removed = [...relayed.shared.map.keys()].filter((key) => !keys.has(key));
  return { ...changes, removed } as Batch<unknown>;
}
