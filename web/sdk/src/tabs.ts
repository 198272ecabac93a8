/**
 * A session that all tabs of an origin share: one connection, which a Worker of one of the tabs has. If this tab is closed,
 * another one continues.
 *
 * @packageDocumentation
 */

import { backoff } from "./backoff.js";
import { ThalwegError } from "./errors.js";
import { root } from "./options.js";
import { remote } from "./rpc.js";
import type { Session } from "./session.js";
import type { TabsMessage } from "./tabs-host.js";
import { attachTo, NOT_LOADED, type WorkerLike } from "./worker.js";
import type { HostMethods } from "./worker-methods.js";
import { pageSession, type WorkerOptions } from "./worker-page.js";

export type { WorkerLike, WorkerOptions };
export { ThalwegError };

/** The user whose tabs share a connection. */
export interface TabsIdentity {
  /** The user, such as the subject of the token. */
  identity: string;
}

/** Tabs without tokens. */
export interface TabsWithoutToken {
  /** A user. Default: all tabs without an identity share the connection. */
  identity?: string;
  /** A token needs an identity: see {@link TabsIdentity}. */
  token?: never;
}

/**
 * The options of a session that tabs share. Tabs with the same server and the same identity pass the same options. A `token`
 * needs an `identity`: the connection has the rights of one token, and tabs of different users must not share it.
 */
export type TabsOptions = WorkerOptions & (TabsIdentity | TabsWithoutToken);

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
 * Without `BroadcastChannel` or Web Locks, which exist only in secure contexts and not in a sandboxed frame, each tab has a
 * connection of its own.
 *
 * ```js
 * const worker = () => new Worker(new URL("thalweg/worker-host", import.meta.url), { type: "module" });
 * const session = connectTabs(worker, "/", { identity: user, token: () => fetchToken() });
 * ```
 *
 * @param worker - creates a Worker with the module `thalweg/worker-host`. Only one of the tabs calls it.
 * @throws TypeError if there is a token and no identity.
 */
export function connectTabs(worker: () => TabsWorker, url: string | URL = "/", options: TabsOptions = {}): Session {
  const { identity, ...plain } = options;
  if (options.token && !identity)
    throw new TypeError("a token needs an identity: tabs of other users must not share it");
  const base = root(url);
  const name = `thalweg1:${JSON.stringify([base.href, identity])}`;
  const locks = globalThis.navigator?.locks;
  let all: BroadcastChannel | null = null;
  let port: BroadcastChannel | MessagePort | null = null;
  /** The number of the latest host. */
  let latest = 0;
  /** Ends this tab's locks. */
  let release: () => void = () => {};
  const closed = new Promise<void>((resolve) => (release = resolve));
  const ended = new AbortController();
  const { signal } = ended;

  const page = pageSession(
    base,
    plain,
    () => port?.close(),
    () => {
      all?.close();
      ended.abort();
      release();
    },
  );
  const { session, here, attach, detach } = page;

  const failed = (error: unknown): void => {
    page.failed(new ThalwegError("no_worker", (error as Error)?.message || NOT_LOADED));
    port?.close();
  };

  /** Continues with a Worker of this tab alone. */
  const continueAlone = (): void => {
    if (signal.aborted) return;
    all?.close();
    try {
      const its = worker();
      void closed.then(() => its.terminate?.());
      port = attachTo(its, page);
    } catch (error) {
      failed(error);
    }
  };

  if (!locks || !globalThis.BroadcastChannel) {
    queueMicrotask(continueAlone);
    return session;
  }

  const tab = `${name}:${crypto.randomUUID()}`;
  const channels = new BroadcastChannel(name);
  all = channels;

  /** Reports to the latest host, over a channel that no earlier host knows. */
  const report = (): void => {
    const channel = `${tab}:${latest}`;
    const its = new BroadcastChannel(channel);
    port = its;
    const ready = (): void =>
      void attach(there).catch((error: ThalwegError) => {
        // The next host opens the session again.
        if (error.code !== "unanswered") page.failed(error);
      });
    const there = remote<HostMethods>(its, { ...here, ready });
    channels.postMessage({ tab, channel, to: latest } satisfies TabsMessage);
  };

  /** The host before this number is gone. */
  const lose = (number: number): void => {
    if (number <= latest) return;
    port?.close();
    detach("the tab with the connection was closed");
  };

  const delay = backoff();
  /** Hosts the session when no other tab does. Returns the error if the Worker does not load. */
  const lead = async (): Promise<unknown> => {
    // The next tab that gets this lock has a larger number, even if this one is closed at once.
    await new Promise((go) => setTimeout(go, 2));
    if (signal.aborted) return null;
    const number = Math.max(Date.now(), latest + 1);
    lose(number);
    channels.postMessage({ gone: number } satisfies TabsMessage);
    let its: TabsWorker | undefined;
    try {
      its = worker();
      const broken = new Promise((_, reject) => {
        // A Worker that has announced itself has loaded.
        its?.addEventListener?.("error", (error) => latest < number && reject(error));
      });
      its.postMessage({ thalwegTabs: [name, number] }, []);
      await Promise.race([closed, broken]);
      return null;
    } catch (error) {
      return error ?? {};
    } finally {
      its?.terminate?.();
    }
  };

  const queue = async (): Promise<void> => {
    const error = await locks.request(name, { signal }, lead);
    if (!error) return;
    if (!latest) {
      failed(error);
      return;
    }
    // The page may be offline. Another tab may succeed in the meantime.
    const ms = delay(0);
    detach((error as Error).message || NOT_LOADED, Date.now() + ms);
    setTimeout(() => signal.aborted || queue().catch(continueAlone), ms);
  };

  locks
    .request(tab, () => {
      // The page may have closed the session before.
      if (signal.aborted) return;
      // A host that knew the tab before it holds this lock would take it for a closed one.
      channels.onmessage = ({ data: { host = 0, gone = host } }: MessageEvent<TabsMessage>) => {
        lose(gone);
        if (host <= latest) return;
        latest = host;
        report();
      };
      channels.postMessage({ hello: true } satisfies TabsMessage);
      return closed;
    })
    // The other lock is refused, too.
    .catch(() => {});
  queue().catch(continueAlone);
  return session;
}
