/**
 * A session that all tabs of an origin share: one connection, which a Worker of one of the tabs has. If this tab is closed,
 * another one continues.
 *
 * @packageDocumentation
 */

import { ThalwegError } from "./errors.js";
import { root } from "./options.js";
import { remote } from "./rpc.js";
import type { Session } from "./session.js";
import type { TabsMessage } from "./tabs-host.js";
import { connectInWorker, type WorkerLike } from "./worker.js";
import type { HostMethods } from "./worker-methods.js";
import { pageSession, type WorkerOptions } from "./worker-page.js";

export type { WorkerLike, WorkerOptions };
export { ThalwegError };

/** The options of a session that tabs share. Tabs with the same server and the same identity pass the same options. */
export interface TabsOptions extends WorkerOptions {
  /** The user whose tabs share the connection, such as the subject of the token. Default: all tabs do. */
  identity?: string;
}

/** A Worker that can be stopped. */
export interface TabsWorker extends WorkerLike {
  /** Stops the Worker when the session is closed. */
  terminate?(): void;
}

/**
 * Creates a session with the server at `url` that shares its connection with the other tabs. Use it like a session of `connect`.
 * Each tab has its own subscriptions and positions. The connection counts as hidden while all tabs are hidden. The
 * `interval` and the `policy` of a topic are those of the tab that has subscribed first.
 *
 * Without `BroadcastChannel` or Web Locks, which exist only in secure contexts, each tab has a connection of its own.
 *
 * ```js
 * const worker = () => new Worker(new URL("thalweg/worker-host", import.meta.url), { type: "module" });
 * const session = connectTabs(worker, "/", { identity: user, token: () => fetchToken() });
 * ```
 *
 * @param worker - creates a Worker with the module `thalweg/worker-host`. Only one of the tabs calls it.
 */
export function connectTabs(worker: () => TabsWorker, url: string | URL = "/", options: TabsOptions = {}): Session {
  const { identity = "", ...plain } = options;
  const locks = globalThis.navigator?.locks;
  if (!locks || !globalThis.BroadcastChannel) return connectInWorker(worker(), url, plain);
  const base = root(url);
  const name = `thalweg:${base.href}:${identity}`;
  const tab = `${name}:${crypto.randomUUID()}`;
  const all = new BroadcastChannel(name);
  let port: BroadcastChannel | null = null;
  /** The number of the latest host. */
  let latest = 0;
  /** Ends this tab's locks. */
  let release: () => void = () => {};
  const closed = new Promise<void>((resolve) => (release = resolve));
  const waiting = new AbortController();

  let hasOpened = false;

  const close = (): void => port?.close();
  const { session, here, attach, detach, failed } = pageSession(base, plain, close, () => {
    all.close();
    waiting.abort();
    release();
  });

  /** Reports to the latest host, over a channel that no earlier host knows. */
  const report = (): void => {
    port?.close();
    const channel = `${tab}:${latest}`;
    port = new BroadcastChannel(channel);
    const ready = (): void =>
      void attach(there).then(
        () => {
          hasOpened = true;
        },
        (error: ThalwegError) => {
          // The next host opens the session again.
          if (error.code !== "unanswered") failed(error);
        },
      );
    const there = remote<HostMethods>(port, { ...here, ready });
    all.postMessage({ tab, channel, to: latest } satisfies TabsMessage);
  };

  all.onmessage = ({ data: { host = 0 } }: MessageEvent<TabsMessage>) => {
    if (host <= latest) return;
    latest = host;
    detach();
    report();
  };

  void locks.request(tab, async () => {
    all.postMessage({ hello: true } satisfies TabsMessage);
    await closed;
  });
  locks
    .request(name, { signal: waiting.signal }, async () => {
      // The next tab that gets this lock has a larger number, even if this one is closed at once.
      await new Promise((go) => setTimeout(go, 2));
      const number = Math.max(Date.now(), latest + 1);
      const its = worker();
      its.addEventListener?.("error", ({ message = "the Worker failed to load" }) => {
        if (!hasOpened) failed(new ThalwegError("no_worker", message));
      });
      its.postMessage({ tabs: [name, number] }, []);
      await closed;
      its.terminate?.();
    })
    .catch(() => {});
  return session;
}
