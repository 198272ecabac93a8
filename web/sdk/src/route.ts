/**
 * The connection in use, and how the next one is found: retries, falls back, upgrades
 * again. Knows nothing of topics.
 */

import { delay } from "./backoff.js";
import { type Connection, type ConnectionHooks, connection } from "./connection.js";
import { isTransient, ThalwegError } from "./errors.js";
import { transportFallback } from "./fallback.js";
import type { Page } from "./page.js";
import type { ConnectPlan, End, Transport, TransportName } from "./transports/transport.js";

/** How a session is. */
export interface Status {
  /**
   * `idle`: nobody wants anything; `connecting`; `open`: data arrives; `waiting`: for the
   * next attempt, or for the page to catch up; `closed`: for good.
   */
  readonly state: "idle" | "connecting" | "open" | "waiting" | "closed";
  /** In use, or being tried; `null` if none is. */
  readonly transport: TransportName | null;
  /** Why it is so, where there is something to say. */
  readonly reason: string | null;
}

/** When a better transport is tried again: after so long, then twice as long, ms. */
const UPGRADE_MS = 30_000;
const UPGRADE_MS_MAX = 15 * 60_000;
/** So often a token may be refused before that is taken for the answer. */
const UNAUTHORIZED_MAX = 2;

/** What a route tells its session, and asks of it. @internal */
export interface RouteHooks extends Pick<ConnectionHooks, "opened" | "received" | "drained"> {
  /** What the next connection is to carry. May fail with a {@link ThalwegError}. */
  plan(transport: Transport): Promise<ConnectPlan>;
  /** Nothing comes over this connection any more. */
  left(connection: Connection): void;
  status(status: Status): void;
  /** There is no way, and there will be none. */
  failed(error: ThalwegError): void;
}

/** @internal */
export interface Route {
  /** The connection in use, whether it works or not. */
  current(): Connection | null;
  /** Whether there shall be a connection. */
  want(isWanted: boolean): void;
  /** What is to be carried has changed: opens anew what cannot be told so. */
  renew(): void;
  /** Gives up the connection until then. */
  pause(reason: string, until: Promise<void> | null): void;
  /** Whoever waits for the next attempt waits no longer. */
  wake(): void;
  /** This transport is the best from now on; `null`: the first of the order is. */
  use(transport: Transport | null): void;
  /** For good. */
  close(reason: string | null): void;
}

/** @internal */
export function route(
  base: URL,
  order: readonly Transport[],
  page: Page,
  hooks: RouteHooks,
  connectTimeoutMs: number,
  idleTimeoutMs: number,
): Route {
  const supported = order.filter((transport) => transport.isSupported(base));
  if (!supported.length) throw new ThalwegError("no_transport", "there is no transport here");
  const fallback = transportFallback(supported, page.recall(base.origin));
  let isWanted = false;
  let isPaused = false;
  let current: Connection | null = null;
  /** Takes over as soon as it works. */
  let candidate: Connection | null = null;
  /** Whether the current one does not carry what is wanted: it must be replaced. */
  let isStale = false;
  /** What is being prepared. */
  let dialled: object | null = null;
  /** How often it was waited for the next attempt since something last arrived. */
  let waits = 0;
  let unauthorized = 0;
  let upgradeMs = UPGRADE_MS;
  let retryTimer: ReturnType<typeof setTimeout> | undefined;
  let upgradeTimer: ReturnType<typeof setTimeout> | undefined;

  /** The last thing that is done: whoever hears of it may close the session, or use another transport. */
  const say = (state: Status["state"], reason: string | null = null): void => {
    const transport = current?.transport ?? (state === "connecting" ? fallback.current() : null);
    hooks.status({ state, transport: transport && transport.name, reason });
  };

  const drop = (connection: Connection | null): void => {
    connection?.close();
    if (connection) hooks.left(connection);
  };

  const become = (next: Connection | null): void => {
    const last = current;
    current = next;
    // It was on its way.
    if (next) candidate = null;
    isStale = false;
    clearTimeout(retryTimer);
    drop(last);
  };

  /** Nothing is under way any more, but what is in use. */
  const dismiss = (): void => {
    dialled = null;
    drop(candidate);
    candidate = null;
  };

  /** Opens a connection: beside the current one over this transport, or the one to use. */
  const dial = (beside?: Transport): void => {
    const transport = beside ?? fallback.current();
    clearTimeout(retryTimer);
    dismiss();
    const own = (dialled = {});
    hooks.plan(transport).then(
      (plan) => {
        if (own !== dialled) return;
        dialled = null;
        const next = connection(transport, plan, connectionHooks, connectTimeoutMs, idleTimeoutMs);
        if (beside && current) candidate = next;
        else become(next);
      },
      (error?: Partial<ThalwegError>) => {
        if (own !== dialled) return;
        dialled = null;
        const refusal = error instanceof ThalwegError && error.status ? { status: error.status, error } : undefined;
        (beside ? missed : fallen)({ refusal }, error?.message ?? `${error}`);
      },
    );
    if (!beside) say("connecting");
  };

  const upgrade = (): void => {
    upgradeTimer = undefined;
    const better = current && fallback.better();
    if (better) dial(better);
  };

  const upgradeLater = (): void => {
    if (upgradeTimer || fallback.isBest()) return;
    upgradeTimer = setTimeout(upgrade, upgradeMs);
    upgradeMs = Math.min(upgradeMs * 2 || UPGRADE_MS, UPGRADE_MS_MAX);
  };

  const cancelUpgrade = (): void => {
    clearTimeout(upgradeTimer);
    upgradeTimer = undefined;
  };

  /** There is no connection any more: what now? */
  const fallen = ({ close, refusal }: End, why: string): void => {
    const { status = 0, error } = refusal ?? {};
    if (error && !isTransient(status) && (status !== 401 || ++unauthorized >= UNAUTHORIZED_MAX)) {
      hooks.failed(new ThalwegError(error.code, error.message, status));
    } else if (close && !close.reconnect) {
      hooks.failed(new ThalwegError(`close_${close.code}`, close.reason));
    } else if (candidate) {
      become(candidate);
      say("connecting", why);
    } else {
      // A transport that the server itself ended, or refused, has not failed.
      const isOurs = error || (close && close.code !== 1006);
      if (isOurs || fallback.failed()) {
        retryTimer = setTimeout(dial, delay(waits++));
        say("waiting", error?.message ?? why);
      } else dial();
    }
  };

  /** What was tried beside the current one did not come about. */
  const missed = (end: End, why: string): void => {
    if (isStale) {
      become(null);
      fallen(end, why);
    } else upgradeLater();
  };

  const leave = (state: Status["state"], reason?: string | null): void => {
    cancelUpgrade();
    dismiss();
    become(null);
    say(state, reason);
  };

  const connectionHooks: ConnectionHooks = {
    ...hooks,
    worked(connection) {
      if (connection === candidate) become(connection);
      waits = unauthorized = 0;
      if (fallback.worked(connection.transport)) {
        cancelUpgrade();
        upgradeMs = 0;
      }
      // A choice of one says nothing of the way.
      if (order[1]) page.remember(base.origin, connection.transport.name);
      if (fallback.isBest()) {
        cancelUpgrade();
        upgradeMs = UPGRADE_MS;
      } else upgradeLater();
      say("open");
    },
    lost(connection, end, why) {
      if (connection === candidate) {
        dismiss();
        missed(end, why);
      } else if (connection === current) {
        become(null);
        fallen(end, why);
      }
    },
  };

  const wake = (): void => {
    if (isWanted && !isPaused && !current && !dialled) dial();
  };

  return {
    current: () => current,
    wake,
    want(is) {
      if (isWanted === is) return;
      isWanted = is;
      if (is) wake();
      else leave("idle");
    },
    renew() {
      if (!current) return;
      isStale = !current.transport.isTwoWay;
      const anew = (isStale ? current : candidate)?.transport;
      if (anew && !anew.isTwoWay) dial(anew);
    },
    pause(reason, until) {
      isPaused = true;
      leave("waiting", reason);
      void until?.then(() => {
        isPaused = false;
        wake();
      });
    },
    use(wanted) {
      if (wanted && !wanted.isSupported(base)) {
        throw new ThalwegError("no_transport", `there is no ${wanted.name} here`);
      }
      cancelUpgrade();
      fallback.prefer(wanted, current && current.transport);
      if (!isStale) dismiss();
      // Should topics change before it is there, or it fail, it is tried again at once.
      upgradeMs = 0;
      upgrade();
      wake();
    },
    close(reason) {
      isWanted = false;
      leave("closed", reason);
    },
  };
}
