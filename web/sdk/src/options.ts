/** The options of a session, and what holds where they say nothing. */

import type { Timeouts } from "./connection.js";
import type { Status } from "./route.js";
import { DEFAULT_ORDER, HIGH_VOLUME_ORDER, transport } from "./transports/order.js";
import type { Transport, TransportName } from "./transports/transport.js";

/** The options of a session. All of them can be left out. */
export interface ConnectOptions {
  /** Transports to try, the best first; those that do not exist here are left out. */
  transports?: readonly (TransportName | Transport)[];
  /** `high`: HTTP streaming is tried first, which carries more in one direction. `normal` if left out. */
  volume?: "normal" | "high";
  /**
   * Gives a token. It is called for each connection and each `POST`, so a short-lived token
   * will do: of a JSON Web Token the next one is asked for before it ends, and takes its place
   * without an interruption. If it throws, the attempt to connect has failed; the next one asks again.
   */
  token?: () => string | Promise<string>;
  /**
   * WebSocket only: how many bytes of each topic the server may send ahead of what the page
   * has processed. 0: as many as the network takes. 262,144 if left out.
   */
  window?: number;
  /** At least this long between two batches of a topic while the tab is hidden, ms. 0: as if it were visible. 2,000 if left out. */
  hiddenInterval?: number;
  /** How long a connection may take until its first message, and a ticket to come, ms. 5,000 if left out. */
  connectTimeout?: number;
  /**
   * How long a connection may be silent before it counts as lost, and a `POST` unanswered, ms.
   * More than twice the server's heartbeat interval. 60,000 if left out.
   */
  idleTimeout?: number;
  /** Called with each new status; never twice with the same. It may call the session's methods. */
  onStatus?: (status: Status) => void;
  /** Used for all requests instead of the platform's `fetch`. */
  fetch?: typeof fetch;
}

const WINDOW_BYTES = 256 * 1024;
const HIDDEN_INTERVAL_MS = 2000;
const CONNECT_TIMEOUT_MS = 5000;
const IDLE_TIMEOUT_MS = 60_000;
/** Eleven days: a timer for more than 24 would end at once. */
const TIMEOUT_MS_MAX = 1e9;

/** What each request needs. @internal */
export interface RequestSettings extends Timeouts {
  readonly fetch: typeof fetch;
  /** The page's token as of now; `null` if it has none. */
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

/** Where to connect, and how: the options, each with a value. @internal */
export interface Settings extends RequestSettings {
  /** The server's root. */
  readonly base: URL;
  readonly transports: readonly Transport[];
  readonly window: number;
  readonly hiddenInterval: number;
  /** Whether value topics may come as patches: asked by each new connection. */
  deltas: "patch" | undefined;
  onStatus(status: Status): void;
}

/** @throws TypeError if no transport has the name of one of them. @internal */
export function settings(base: URL, options: ConnectOptions): Settings {
  return {
    base,
    transports: options.transports?.map(transport) ?? (options.volume === "high" ? HIGH_VOLUME_ORDER : DEFAULT_ORDER),
    window: options.window ?? WINDOW_BYTES,
    hiddenInterval: options.hiddenInterval ?? HIDDEN_INTERVAL_MS,
    deltas: "patch",
    onStatus: (status) => options.onStatus?.(status),
    ...requestSettings(options),
  };
}
