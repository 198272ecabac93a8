/**
 * The connection in use, and the search for the next one: the route reconnects, falls back and upgrades. It does not
 * know topics.
 *
 * To connect, `want` or `wake` calls `#connect`, which calls `#dial`: the session makes a plan, and the
 * transport opens a connection. Its first message calls `established`. After a loss, `lost` calls `#recover`,
 * which calls `#connect` again, at once or after a delay. A better transport is dialled beside the connection
 * in use, as the candidate that replaces it.
 */

import { backoff } from "./backoff.js";
import { type Connection, type ConnectionOwner, connection, type MessageHooks } from "./connection.js";
import { finalError, NO_TOKEN, ThalwegError } from "./errors.js";
import { type TransportFallback, transportFallback } from "./fallback.js";
import type { Settings } from "./options.js";
import type { Page } from "./page.js";
import type { Status } from "./status.js";
import type { ConnectPlan, End, Transport } from "./transports/transport.js";

/** First delay before a better transport is tried again, ms; it doubles each time. */
const UPGRADE_FIRST_MS = 30_000;
const UPGRADE_MOST_MS = 15 * 60_000;

/** The part of a session that its route uses. @internal */
export interface RouteHooks extends MessageHooks {
  /** Plans the next connection. May fail with a {@link ThalwegError}. */
  plan(transport: Transport): Promise<ConnectPlan>;
  /** The route has closed this connection: no message follows. */
  left(connection: Connection): void;
  /** Sends the page's next token over a two-way connection. If that fails, the connection ends when its token expires. */
  refresh(connection: Connection): Promise<void>;
  onStatus(status: Status): void;
  /** Ends the session with an error; `null`: the page has closed it. */
  end(error: ThalwegError | null): void;
}

/** @internal */
export class Route implements ConnectionOwner {
  readonly #settings: Settings;
  readonly #page: Page;
  readonly #hooks: RouteHooks;
  readonly #fallback: TransportFallback;
  readonly #upgrades = upgradeTimer(() => this.#upgrade());
  #isWanted = false;
  #isPaused = false;
  #current: Connection | null = null;
  #candidate: Connection | null = null;
  /** Whether the connection in use must be replaced because its topics or terms are outdated. */
  #isStale = false;
  /** Identifies the plan that is being made. A plan with another identity is dropped. */
  #planning: object | null = null;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #backoff = backoff();
  /** Number of tokens rejected since the last message. */
  #unauthorized = 0;

  /** @throws ThalwegError `no_transport` if none of the transports is available here. */
  constructor(settings: Settings, page: Page, hooks: RouteHooks) {
    const { base, transports } = settings;
    const supported = transports.filter((transport) => transport.isSupported(base));
    if (!supported.length) throw new ThalwegError("no_transport", "no transport is available here");
    this.#settings = settings;
    this.#page = page;
    this.#hooks = hooks;
    this.#fallback = transportFallback(supported, page.recall(base.origin));
  }

  /** The connection in use, established or not. */
  get current(): Connection | null {
    return this.#current;
  }

  /** The connection in use, if commands can be sent over it. */
  get twoWay(): Connection | null {
    return this.#current?.isEstablished && this.#current.isOpen ? this.#current : null;
  }

  want(isWanted: boolean): void {
    if (this.#isWanted === isWanted) return;
    this.#isWanted = isWanted;
    if (isWanted) this.wake();
    else this.#disconnect("idle");
  }

  /** Connects at once if the next attempt is waiting for its delay. */
  wake(): void {
    if (this.#isWanted && !this.#isPaused && !this.#current && !this.#planning) this.#connect();
  }

  /** Replaces a one-way connection after topics or terms have changed. */
  renew(): void {
    if (!this.#current) return;
    this.#isStale = !this.#current.transport.isTwoWay;
    const transport = (this.#isStale ? this.#current : this.#candidate)?.transport;
    if (transport && !transport.isTwoWay) this.#dial(transport, true);
  }

  /** Closes the connection, and connects again when `until` settles, or at once if it is `null`. */
  pause(reason: string, until: Promise<void> | null): void {
    this.#isPaused = true;
    this.#disconnect("waiting", reason);
    void Promise.resolve(until).then(() => {
      this.#isPaused = false;
      this.wake();
    });
  }

  /** Sets the preferred transport; `null`: the first of the order. */
  use(transport: Transport | null): void {
    if (transport && !transport.isSupported(this.#settings.base)) {
      throw new ThalwegError("no_transport", `${transport.name} is not available here`);
    }
    this.#fallback.prefer(transport, this.#current && this.#current.transport);
    if (!this.#isStale) this.#cancelDial();
    // Set no delay: if this attempt fails, or changed topics cancel it, the next one follows at once.
    this.#upgrades.reset(0);
    this.#upgrade();
    this.wake();
  }

  close(reason: string | null): void {
    this.#isWanted = false;
    this.#disconnect("closed", reason);
  }

  #connect(): void {
    this.#dial(this.#fallback.current(), false);
    this.#report("connecting");
  }

  #upgrade(): void {
    const better = this.#current && this.#fallback.better();
    if (better) this.#dial(better, true);
  }

  /** @param isBeside - whether the connection in use stays until this one is established. */
  #dial(transport: Transport, isBeside: boolean): void {
    clearTimeout(this.#retryTimer);
    this.#cancelDial();
    const planning = {};
    this.#planning = planning;
    const ifCurrent = (proceed: () => void): void => {
      if (planning !== this.#planning) return;
      this.#planning = null;
      proceed();
    };
    this.#hooks.plan(transport).then(
      (plan) => ifCurrent(() => this.#open(transport, plan, isBeside)),
      (error: ThalwegError) => ifCurrent(() => this.#planFailed(error, isBeside)),
    );
  }

  #open(transport: Transport, plan: ConnectPlan, isBeside: boolean): void {
    const next = connection(transport, plan, this, this.#hooks, this.#settings);
    if (isBeside && this.#current) this.#candidate = next;
    else this.#changeTo(next);
  }

  #planFailed(error: ThalwegError, isBeside: boolean): void {
    const { status, retryAfter, message: why } = error;
    const end = status ? { refusal: { status, error, retryAfter } } : {};
    if (isBeside) this.#candidateLost(end, why);
    // Without a token the other transports would fail too.
    else this.#recover(end, why, null, error.code === NO_TOKEN);
  }

  /** Drops the plan and the candidate. The connection in use stays. */
  #cancelDial(): void {
    this.#planning = null;
    this.#discard(this.#candidate);
    this.#candidate = null;
  }

  #changeTo(next: Connection | null): void {
    const last = this.#current;
    this.#current = next;
    // If `next` was the candidate, it is not one any more.
    if (next) this.#candidate = null;
    this.#isStale = false;
    clearTimeout(this.#retryTimer);
    this.#discard(last);
  }

  #discard(connection: Connection | null): void {
    connection?.close();
    if (connection) this.#hooks.left(connection);
  }

  #disconnect(state: Status["state"], reason?: string | null): void {
    this.#upgrades.stop();
    this.#cancelDial();
    this.#changeTo(null);
    this.#report(state, reason);
  }

  /** Reports a status. Call it last: `onStatus` may close the session or use another transport. */
  #report(state: Status["state"], reason: string | null = null, retryAt?: number): void {
    const transport = this.#current?.transport ?? (state === "connecting" ? this.#fallback.current() : null);
    this.#hooks.onStatus({ state, transport: transport && transport.name, reason, retryAt });
  }

  // The route's connections call the following methods.

  established(connection: Connection): void {
    if (connection === this.#candidate) this.#changeTo(connection);
    this.#unauthorized = 0;
    if (this.#fallback.worked(connection.transport)) this.#upgrades.reset(0);
    const { base, transports } = this.#settings;
    // With one transport there is no choice to remember.
    if (transports[1]) this.#page.remember(base.origin, connection.transport.name);
    if (this.#fallback.isBest()) this.#upgrades.reset();
    else this.#upgrades.start();
    this.#report("open");
  }

  expiring(connection: Connection): void {
    if (connection !== this.#current) return;
    // A one-way connection cannot change its token: a connection with the next token replaces it.
    if (connection.transport.isTwoWay) void this.#hooks.refresh(connection);
    else this.renew();
  }

  lost(connection: Connection, end: End, why: string): void {
    if (connection === this.#candidate) {
      this.#cancelDial();
      this.#candidateLost(end, why);
    } else if (connection === this.#current) this.#recover(end, why, connection);
  }

  #candidateLost(end: End, why: string): void {
    if (this.#isStale) this.#recover(end, why, null);
    else if (!this.#fallback.isBest()) this.#upgrades.start();
  }

  /**
   * @param last - the connection that ended; `null` if there was none, or it had to be replaced.
   * @param isHopeless - whether every transport would fail for the same reason.
   */
  #recover(end: End, why: string, last: Connection | null, isHopeless = false): void {
    this.#changeTo(null);
    const error = finalError(end, () => ++this.#unauthorized);
    if (error) this.#hooks.end(error);
    else if (this.#candidate) {
      this.#changeTo(this.#candidate);
      this.#report("connecting", why);
    } else if (isHopeless || isServersDecision(end) || this.#fallback.failed() || last?.isEstablished) {
      const waitMs = this.#backoff(last ? last.livedMs() : 0, end.refusal?.retryAfter);
      this.#retryTimer = setTimeout(() => this.#connect(), waitMs);
      this.#report("waiting", end.refusal?.error?.message ?? why, Date.now() + waitMs);
    } else this.#connect();
  }
}

/**
 * Returns whether the server itself closed or rejected the connection. If so, the transport works, and the
 * route does not fall back to another one.
 */
function isServersDecision({ close, refusal }: End): boolean {
  return !!(refusal?.error || refusal?.retryAfter) || (close !== undefined && close.code !== 1006);
}

interface UpgradeTimer {
  /** Schedules the next attempt, unless one is scheduled already. */
  start(): void;
  stop(): void;
  /** Cancels the attempt, and sets the next delay, ms. */
  reset(delayMs?: number): void;
}

function upgradeTimer(upgrade: () => void): UpgradeTimer {
  let nextMs = UPGRADE_FIRST_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  return {
    start() {
      if (timer) return;
      timer = setTimeout(() => {
        timer = undefined;
        upgrade();
      }, nextMs);
      nextMs = Math.min(nextMs * 2 || UPGRADE_FIRST_MS, UPGRADE_MOST_MS);
    },
    stop,
    reset(delayMs = UPGRADE_FIRST_MS) {
      stop();
      nextMs = delayMs;
    },
  };
}
