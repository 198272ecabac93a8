/** The options of a session, and their defaults. */

import type { Timeouts } from "./connection.js";
import type { Status } from "./status.js";
import { DEFAULT_ORDER, HIGH_VOLUME_ORDER, transport } from "./transports/order.js";
import type { Transport, TransportName } from "./transports/transport.js";

/** A page's description of itself, for the other subscribers of its topics. */
export interface Member {
  /**
   * An id that the page keeps when it connects again, at most 256 bytes of UTF-8. Default: a random one for each
   * session. A server with `presence = "users"` lists the subject of a token instead.
   */
  id?: string;
  /** Any JSON value for the other subscribers, at most 1,024 bytes. */
  info?: unknown;
}

/** The options of a session. All are optional. */
export interface ConnectOptions {
  /** Transports to try, the best first. Those that are not available here are skipped. */
  transports?: readonly (TransportName | Transport)[];
  /** `high`: HTTP streaming is tried first, which carries more data in one direction. Default: `normal`. */
  volume?: "normal" | "high";
  /**
   * Returns a token. The session calls it for each connection and each `POST`, so short-lived tokens work. Before a
   * JSON Web Token expires, the session requests the next one and replaces it without an interruption. If the function
   * throws, the attempt to connect fails, and the next attempt calls it again.
   */
  token?: () => string | Promise<string>;
  /**
   * WebSocket only: how many bytes of each topic the server may send before the page has processed them. 0: no limit.
   * Default: 262,144.
   */
  window?: number;
  /** Shortest time between two batches of a topic while the tab is hidden, ms. 0: as if it were visible. Default: 2,000. */
  hiddenInterval?: number;
  /** Longest time until the first message of a connection, and until the response to a ticket request, ms. Default: 5,000. */
  connectTimeout?: number;
  /**
   * Longest silence before a connection counts as lost, and before a `POST` counts as unanswered, ms. It must be more
   * than twice the server's heartbeat interval. Default: 60,000.
   */
  idleTimeout?: number;
  /** The page's entry on topics with presence (`presence/TOPIC`). Default: without an id and without information. */
  member?: Member;
  /** Called with each new status, never twice with the same one. It may call the session's methods. */
  onStatus?: (status: Status) => void;
  /** Replaces the platform's `fetch` for all requests. */
  fetch?: typeof fetch;
}

const WINDOW_BYTES = 256 * 1024;
const HIDDEN_INTERVAL_MS = 2000;
const CONNECT_TIMEOUT_MS = 5000;
const IDLE_TIMEOUT_MS = 60_000;
/** Longest timeout, ms: eleven days. A timer for more than 24 days would fire at once. */
const TIMEOUT_MS_MAX = 1e9;

/** The settings of each request. @internal */
export interface RequestSettings extends Timeouts {
  readonly fetch: typeof fetch;
  /** Returns the page's token; `null` without one. */
  token(): Promise<string | null>;
}

/** @internal */
export function requestSettings(
  options: Pick<ConnectOptions, "connectTimeout" | "idleTimeout" | "fetch" | "token">,
): RequestSettings {
  return {
    connectTimeout: Math.min(options.connectTimeout ?? CONNECT_TIMEOUT_MS, TIMEOUT_MS_MAX),
    idleTimeout: Math.min(options.idleTimeout ?? IDLE_TIMEOUT_MS, TIMEOUT_MS_MAX),
    fetch: options.fetch ?? ((...given) => fetch(...given)),
    token: async () => (await options.token?.()) ?? null,
  };
}

/** The server and the options, with all defaults applied. @internal */
export interface Settings extends RequestSettings {
  readonly base: URL;
  readonly transports: readonly Transport[];
  readonly window: number;
  readonly hiddenInterval: number;
  /** The parameters of the URL that describe the page to others. */
  readonly member: Readonly<Record<string, string | undefined>>;
  /** `patch` if the next connection requests patches of value topics. */
  deltas: "patch" | undefined;
  onStatus(status: Status): void;
}

/** @throws TypeError if a transport's name is unknown. @internal */
export function settings(base: URL, options: ConnectOptions): Settings {
  const { member } = options;
  return {
    base,
    transports: options.transports?.map(transport) ?? (options.volume === "high" ? HIGH_VOLUME_ORDER : DEFAULT_ORDER),
    window: options.window ?? WINDOW_BYTES,
    hiddenInterval: options.hiddenInterval ?? HIDDEN_INTERVAL_MS,
    member: member ? { member: member.id ?? randomKey(), info: JSON.stringify(member.info) } : {},
    deltas: "patch",
    onStatus: (status) => options.onStatus?.(status),
    ...requestSettings(options),
  };
}

/** Returns a unique key. `crypto.randomUUID` exists only in secure contexts. @internal */
export function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

/** Returns the server's root, whose path ends in `/`. A reverse proxy may serve it under another path. @internal */
export function root(url: string | URL): URL {
  const base = new URL(url, globalThis.location?.href);
  // Each transport derives its own scheme.
  base.protocol = base.protocol.replace("ws", "http");
  base.pathname = base.pathname.replace(/\/?$/, "/");
  return base;
}
