/**
 * A session whose connection runs in a Worker. The Worker handles network and JSON; the page receives batches.
 *
 * @packageDocumentation
 */

import { ThalwegError } from "./errors.js";
import { root } from "./options.js";
import { remote } from "./rpc.js";
import type { Session } from "./session.js";
import type { HostMethods } from "./worker-methods.js";
import { type PageSession, pageSession, type WorkerOptions } from "./worker-page.js";

export type { WorkerOptions };
export { ThalwegError };

/** The message of an error without one. @internal */
export const NOT_LOADED = "the Worker failed to load";

/** The part of `Worker` that a session needs, so that you can pass another implementation. */
export interface WorkerLike {
  /** The session calls it once: `connectInWorker` with `{ thalweg: MessagePort }`, `connectTabs` with `{ thalwegTabs: [name, number] }`. */
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
  let port: MessagePort;
  const page = pageSession(root(url), options, () => (port.onmessage = null));
  port = attachTo(worker, page);
  return page.session;
}

/** Lets a Worker host a session of this page alone. Returns the page's port. @internal */
export function attachTo(worker: WorkerLike, { here, attach, failed }: PageSession): MessagePort {
  const { port1: port, port2 } = new MessageChannel();
  const there = remote<HostMethods>(port, here);
  let hasOpened = false;
  worker.addEventListener?.("error", ({ message = NOT_LOADED }) => {
    if (!hasOpened) failed(new ThalwegError("no_worker", message));
  });
  worker.postMessage({ thalweg: port2 }, [port2]);
  attach(there).then(() => {
    hasOpened = true;
  }, failed);
  return port;
}
