/** The host of a session that several tabs share: a Worker of one of them. */

import { ThalwegError } from "./errors.js";
import { requestSettings } from "./options.js";
import type { Page, PageEvents } from "./page.js";
import { type Remote, remote, serializeError } from "./rpc.js";
import { open, type Session } from "./session.js";
import { IDLE, type Status } from "./status.js";
import type { AnySubscription, Batch, Listener, SubscribeOptions } from "./subscription.js";
import type { Position } from "./wire.js";
import type { HostMethods, PageMethods, PlainOptions } from "./worker-methods.js";

/** Time after which a tab that does not process a batch no longer delays the others, ms. */
const STALLED_MS = 5000;

/** A message on the channel of all tabs. @internal */
export interface TabsMessage {
  /** A new tab looks for a host. */
  hello?: true;
  /** The number of the host. A host that is about to end has a smaller number than the next one. */
  host?: number;
  /** There is no host before the one with this number, which is about to start. */
  gone?: number;
  /** A tab reports to the host `to`, with its name and the name of its channel. */
  tab?: string;
  channel?: string;
  to?: number;
}

interface Tab {
  readonly there: Remote<PageMethods>;
  hasToken: boolean;
  isHidden: boolean;
  readonly relayed: Map<number, Relayed>;
  end(): void;
}

/** A tab's subscription to a topic. */
interface Relayed {
  readonly topic: string;
  readonly options: SubscribeOptions;
  readonly listener: Listener<unknown>;
  readonly confirmed: () => void;
  /** The number of its session. */
  index: number;
  subscription: AnySubscription | null;
  /** Reports that the tab has processed its batch; `null` if it has none. */
  done: (() => void) | null;
  /** Waits for that. */
  timer: ReturnType<typeof setTimeout> | undefined;
  /** The position of the batch, if the tab lost its subscription because processing took too long. */
  stalled: Position | null;
}

/**
 * Runs a session for all tabs with this name.
 *
 * Each tab has a cursor of its own. A session has one cursor for a topic, so a tab that is at another one gets the topic
 * over a second session, until both are at the same position. Almost always the second session has no topic and no connection.
 *
 * @param number - the number of this host. It is larger than those of earlier ones.
 * @returns a function that ends it. A browser ends the Worker instead.
 * @internal
 */
export function hostTabs(name: string, number: number): () => void {
  const tabs = new Map<string, Tab>();
  let sessions: Session[] = [];
  const pages = new Set<PageEvents>();
  let create: () => Session;
  /** Longest time until a tab returns a token, ms. */
  let patience: number;

  const begin = (base: string, options: PlainOptions, recalled: string | null): void => {
    patience = requestSettings(options).connectTimeout;
    const page: Page = {
      watch(events) {
        pages.add(events);
        events.hidden(areHidden());
        return () => pages.delete(events);
      },
      recall: () => recalled,
      remember: (_, name) => tell("remember", name),
    };
    create = () => {
      const isFirst = !sessions.length;
      const onStatus = (status: Status): void => {
        if (isFirst) tell("status", status);
      };
      const hasToken = [...tabs.values()].some(({ hasToken }) => hasToken);
      return open(new URL(base), { ...options, onStatus, ...(hasToken && { token }) }, page);
    };
  };

  const tell: Remote<PageMethods>["notify"] = (...given) => {
    for (const { there } of tabs.values()) there.notify(...given);
  };

  /**
   * Asks the tabs for a token: visible ones before hidden ones, and the newest first. A tab may be closed or suspended before it
   * answers.
   */
  const token = async (): Promise<string> => {
    let error: unknown = null;
    const newest = [...tabs.values()].reverse();
    for (const tab of newest.sort((one, other) => +one.isHidden - +other.isHidden)) {
      if (!tab.hasToken) continue;
      let timer: ReturnType<typeof setTimeout> | undefined;
      try {
        const late = new Promise<never>((_, reject) => {
          timer = setTimeout(() => reject(new ThalwegError("failed", "no tab has returned a token in time")), patience);
        });
        const its = await Promise.race([tab.there.call("token"), late]);
        if (its) return its;
      } catch (its) {
        error = its;
      } finally {
        clearTimeout(timer);
      }
    }
    if (error) throw error;
    return "";
  };

  const session = (index = 0): Session => (sessions[index] ??= create());

  /** Subscribes over the first session that has, or may have, the cursor of the tab. @throws ThalwegError */
  const subscribe = (relayed: Relayed, from: SubscribeOptions, last = Infinity): void => {
    // The first tab's interval and policy apply to all.
    const { interval: _, policy: __, ...own } = from;
    for (let attempt = 0; ; attempt++) {
      const index = Math.max(0, attempt - 1);
      try {
        const options = attempt === 1 ? own : from;
        const subscription = session(index).subscribe(relayed.topic, options, relayed.listener);
        relayed.subscription?.close();
        relayed.subscription = subscription;
        relayed.index = index;
        const confirm = subscription.confirm.bind(subscription);
        subscription.confirm = (position) => {
          confirm(position);
          relayed.confirmed();
        };
        relayed.confirmed();
        return;
      } catch (error) {
        if ((error as ThalwegError).code !== "already_subscribed" || attempt >= last) throw error;
      }
    }
  };

  let isMoving = false;
  /** Moves subscriptions to the first session that are at its position. */
  const move = (): void => {
    if (isMoving) return;
    isMoving = true;
    queueMicrotask(() => {
      isMoving = false;
      for (const { relayed } of tabs.values()) {
        for (const its of relayed.values()) {
          const position = its.subscription?.position;
          // A batch that the tab has and has not processed is after the position.
          if (!its.index || its.done || !position || its.options.isMap) continue;
          try {
            subscribe(its, { ...its.options, from: position }, 1);
          } catch {
            // The first session is at another position.
          }
        }
      }
    });
  };

  /** Takes the topic from a tab that has stalled, if other tabs wait for it. */
  const watch = (its: Relayed, position: Position): void => {
    its.timer = setTimeout(() => {
      const all = [...tabs.values()].flatMap(({ relayed }) => [...relayed.values()]);
      const isAlone = all.every(
        (other) => other === its || other.topic !== its.topic || other.index !== its.index || !other.subscription,
      );
      if (isAlone) watch(its, position);
      else {
        its.stalled = position;
        its.subscription?.close();
        its.subscription = null;
      }
    }, STALLED_MS);
  };

  const areHidden = (): boolean => [...tabs.values()].every(({ isHidden }) => isHidden);

  const hide = (): void => {
    const isHidden = areHidden();
    for (const { hidden } of pages) hidden(isHidden);
  };

  const admit = (tabName: string, channel: string): void => {
    const port = new BroadcastChannel(channel);
    const relayed = new Map<number, Relayed>();

    /** Continues after a batch that the tab has processed late. A map begins with all keys again. */
    const resume = (key: number, its: Relayed, from: Position): void => {
      const { isMap, onError } = its.options;
      try {
        if (isMap) there.notify("restarts", key);
        subscribe(its, isMap ? its.options : { ...its.options, from });
      } catch (error) {
        onError?.(error as ThalwegError);
      }
    };

    const here: HostMethods = {
      open(base, options, recalled, hasToken) {
        tab.hasToken = hasToken;
        if (sessions[0]?.status.state === "closed") sessions = [];
        if (!sessions.length) begin(base, options, recalled);
        there.notify("status", sessions[0]?.status ?? IDLE);
      },
      subscribe(key, topic, options) {
        const failed = (error: unknown): void => {
          clearTimeout(its.timer);
          relayed.delete(key);
          there.notify("failed", key, serializeError(error));
        };
        const its: Relayed = {
          ...{ topic, index: 0, subscription: null, done: null, timer: undefined, stalled: null },
          options: { ...options, onError: failed },
          listener: (batch: Batch<unknown>) => {
            there.notify("batches", [[key, batch]]);
            move();
            watch(its, batch.position);
            return new Promise<void>((done) => (its.done = done));
          },
          confirmed() {
            const position = its.subscription?.position;
            if (position && !its.done) there.notify("confirmed", key, position);
            move();
          },
        };
        relayed.set(key, its);
        try {
          subscribe(its, its.options);
        } catch (error) {
          failed(error);
        }
      },
      unsubscribe(key) {
        const its = relayed.get(key);
        clearTimeout(its?.timer);
        its?.subscription?.close();
        relayed.delete(key);
      },
      processed(key) {
        const its = relayed.get(key);
        if (!its) return;
        const { done, stalled } = its;
        clearTimeout(its.timer);
        done?.();
        if (stalled) {
          its.done = its.stalled = null;
          resume(key, its, stalled);
          return;
        }
        // The position moves after the promise.
        setTimeout(() => {
          if (its.done === done) its.done = null;
          move();
        });
      },
      ack: (key) => relayed.get(key)?.subscription?.ack(),
      publish: (topic, events) => session().publish(topic, ...events),
      request: (data) => session().request(data),
      use: (transport) => session().use(transport),
      woke() {
        for (const { woke } of pages) woke();
      },
      reconnect: () => session().reconnect(),
      hidden(isHidden) {
        tab.isHidden = isHidden;
        hide();
      },
      close: () => tab.end(),
    };
    const there = remote<PageMethods>(port, here);
    const tab: Tab = {
      there,
      hasToken: false,
      isHidden: false,
      relayed,
      end() {
        tabs.delete(tabName);
        port.close();
        there.end(new ThalwegError("closed", "the tab is closed"));
        for (const { subscription, timer } of relayed.values()) {
          clearTimeout(timer);
          subscription?.close();
        }
        relayed.clear();
        hide();
      },
    };
    tabs.set(tabName, tab);
    hide();
    // The tab holds this lock as long as it lives.
    void navigator.locks.request(tabName, { mode: "shared" }, () => tab.end());
    there.notify("ready");
  };

  const all = new BroadcastChannel(name);
  const announce = (): void => all.postMessage({ host: number } satisfies TabsMessage);
  all.onmessage = ({ data: { hello, tab, channel, to } }: MessageEvent<TabsMessage>) => {
    if (hello) announce();
    if (tab && channel && to === number) admit(tab, channel);
  };
  announce();
  return () => {
    all.close();
    for (const session of sessions) session.close();
  };
}
