/** The host of a session that several tabs share: a Worker of one of them. */

import { ThalwegError } from "./errors.js";
import { requestSettings } from "./options.js";
import type { Page, PageEvents } from "./page.js";
import { type Remote, remote, serializeError } from "./rpc.js";
import { open, type Session } from "./session.js";
import { IDLE, type Status } from "./status.js";
import type { AnySubscription, Batch, Listener, SubscribeOptions } from "./subscription.js";
import type { HostMethods, PageMethods, PlainOptions } from "./worker-methods.js";

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

  const areHidden = (): boolean => [...tabs.values()].every(({ isHidden }) => isHidden);

  const hide = (): void => {
    const isHidden = areHidden();
    for (const { hidden } of pages) hidden(isHidden);
  };

  const admit = (tabName: string, channel: string): void => {
    const port = new BroadcastChannel(channel);
    const relayed = new Map<number, Relayed>();
    const here: HostMethods = {
      open(base, options, recalled, hasToken) {
        tab.hasToken = hasToken;
        if (sessions[0]?.status.state === "closed") sessions = [];
        if (!sessions.length) begin(base, options, recalled);
        there.notify("status", sessions[0]?.status ?? IDLE);
      },
      subscribe(key, topic, options) {
        const failed = (error: unknown): void => {
          relayed.delete(key);
          there.notify("failed", key, serializeError(error));
        };
        const its: Relayed = {
          ...{ topic, index: 0, subscription: null, done: null },
          options: { ...options, onError: failed },
          listener: (batch: Batch<unknown>) => {
            there.notify("batches", [[key, batch]]);
            move();
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
        relayed.get(key)?.subscription?.close();
        relayed.delete(key);
      },
      processed(key) {
        const its = relayed.get(key);
        const done = its?.done;
        done?.();
        // The position moves after the promise.
        setTimeout(() => {
          if (its?.done === done && its) its.done = null;
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
        for (const { subscription } of relayed.values()) subscription?.close();
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
