/**
 * The connection in use, and how the next one is found: retries, falls back, upgrades
 * again. Knows nothing of topics.
 *
 * One connect: `want` or `wake`, `#connect`, `#dial` (the session makes a plan, the
 * transport opens a connection), `established` with the first message. One that is lost:
 * `lost`, `#recover`, and `#connect` again, at once or after a delay. A better transport is
 * dialled beside the connection in use, as the candidate that replaces it.
 */

import { backoff } from "./backoff.js";
import { type Connection, type ConnectionHooks, connection } from "./connection.js";
import { finalError, NO_TOKEN, ThalwegError } from "./errors.js";
import { type TransportFallback, transportFallback } from "./fallback.js";
import type { Settings } from "./options.js";
import type { Page } from "./page.js";
import type { ConnectPlan, End, Transport, TransportName } from "./transports/transport.js";
import { upgradeTimer } from "./upgrades.js";
import type { Message } from "./wire.js";

/**
 * How a session is. It goes from one state to the next by itself; a page only shows it, and
 * acts on `closed`.
 *
 * | `state` | when | what follows |
 * |---|---|---|
 * | `idle` | there is no subscription, and so no connection | `connecting`, with the first subscription |
 * | `connecting` | a connection is being opened over `transport` | `open`, `waiting`, or `connecting` over another transport |
 * | `open` | the first message has arrived over `transport`; comes again when another transport takes over | stays until the connection is lost |
 * | `waiting` | there is no connection: the next attempt comes after a delay (at most 30 s), or when the page has processed what it holds; `reason` says which | `connecting` |
 * | `closed` | the page closed the session (`reason` is `null`), or it cannot go on (`reason` says why) | nothing: all subscriptions have ended; `connect` makes another session |
 */
export interface Status {
  /** As in the table above. */
  readonly state: "idle" | "connecting" | "open" | "waiting" | "closed";
  /** The transport in use or being tried; `null` if there is none. */
  readonly transport: TransportName | null;
  /** Why the session is in this state, in words; `null` if nothing happened to it. */
  readonly reason: string | null;
  /**
   * When the next attempt comes, in ms since 1970, for a countdown; {@link Session.reconnect} makes it
   * at once. Left out if none is due: in all states but `waiting`, and while the page has to catch up.
   */
  readonly retryAt?: number | undefined;
}

/** What a route tells its session, and asks of it. @internal */
export interface RouteHooks extends Pick<ConnectionHooks, "opened" | "received" | "drained" | "expiring"> {
  /** What the next connection is to carry. May fail with a {@link ThalwegError}. */
  plan(transport: Transport): Promise<ConnectPlan>;
  /** Nothing comes over this connection any more. */
  left(connection: Connection): void;
  onStatus(status: Status): void;
  /** There is no way, and there will be none. `null`: the page says so. */
  end(error: ThalwegError | null): void;
}

/** @internal */
export class Route implements ConnectionHooks {
  readonly #settings: Settings;
  readonly #page: Page;
  readonly #hooks: RouteHooks;
  readonly #fallback: TransportFallback;
  readonly #upgrades = upgradeTimer(() => this.#upgrade());
  #isWanted = false;
  #isPaused = false;
  #current: Connection | null = null;
  /** Replaces the current one as soon as it is established. */
  #candidate: Connection | null = null;
  /** Whether the current one does not carry what is wanted: it must be replaced. */
  #isStale = false;
  /** Stands for the plan that is being made; one that is no longer here is given up. */
  #planning: object | null = null;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  readonly #backoff = backoff();
  /** Refusals of a token since something last arrived. */
  #unauthorized = 0;

  /** @throws ThalwegError `no_transport` if none of the transports exists here. */
  constructor(settings: Settings, page: Page, hooks: RouteHooks) {
    const { base, transports } = settings;
    const supported = transports.filter((transport) => transport.isSupported(base));
    if (!supported.length) throw new ThalwegError("no_transport", "there is no transport here");
    this.#settings = settings;
    this.#page = page;
    this.#hooks = hooks;
    this.#fallback = transportFallback(supported, page.recall(base.origin));
  }

  /** The connection in use, whether it works or not. */
  get current(): Connection | null {
    return this.#current;
  }

  /** The connection in use, if commands can go over it. */
  get twoWay(): Connection | null {
    return this.#current?.isEstablished && this.#current.isOpen ? this.#current : null;
  }

  /** Whether there shall be a connection. */
  want(isWanted: boolean): void {
    if (this.#isWanted === isWanted) return;
    this.#isWanted = isWanted;
    if (isWanted) this.wake();
    else this.#disconnect("idle");
  }

  /** Whoever waits for the next attempt waits no longer. */
  wake(): void {
    if (this.#isWanted && !this.#isPaused && !this.#current && !this.#planning) this.#connect();
  }

  /** What is to be carried has changed: replaces a one-way connection, which cannot change. */
  renew(): void {
    if (!this.#current) return;
    this.#isStale = !this.#current.transport.isTwoWay;
    const transport = (this.#isStale ? this.#current : this.#candidate)?.transport;
    if (transport && !transport.isTwoWay) this.#dial(transport, true);
  }

  /** Gives up the connection until then; `null`: the next one is opened at once. */
  pause(reason: string, until: Promise<void> | null): void {
    this.#isPaused = true;
    this.#disconnect("waiting", reason);
    void Promise.resolve(until).then(() => {
      this.#isPaused = false;
      this.wake();
    });
  }

  /** This transport is the best from now on; `null`: the first of the order is. */
  use(transport: Transport | null): void {
    if (transport && !transport.isSupported(this.#settings.base)) {
      throw new ThalwegError("no_transport", `there is no ${transport.name} here`);
    }
    this.#fallback.prefer(transport, this.#current && this.#current.transport);
    if (!this.#isStale) this.#cancelDial();
    // Should topics change before it is there, or it fail, it is tried again at once.
    this.#upgrades.reset(0);
    this.#upgrade();
    this.wake();
  }

  /** For good. */
  close(reason: string | null): void {
    this.#isWanted = false;
    this.#disconnect("closed", reason);
  }

  /** Opens the connection to use, over the transport whose turn it is. */
  #connect(): void {
    this.#dial(this.#fallback.current(), false);
    this.#report("connecting");
  }

  /** Tries a better transport beside the connection in use. */
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
    const unlessGivenUp = (goOn: () => void): void => {
      if (planning !== this.#planning) return;
      this.#planning = null;
      goOn();
    };
    this.#hooks.plan(transport).then(
      (plan) => unlessGivenUp(() => this.#open(transport, plan, isBeside)),
      (error: ThalwegError) => unlessGivenUp(() => this.#planFailed(error, isBeside)),
    );
  }

  #open(transport: Transport, plan: ConnectPlan, isBeside: boolean): void {
    const next = connection(transport, plan, this, this.#settings);
    if (isBeside && this.#current) this.#candidate = next;
    else this.#changeTo(next);
  }

  #planFailed(error: ThalwegError, isBeside: boolean): void {
    const { status, retryAfter, message: why } = error;
    const end = status ? { refusal: { status, error, retryAfter } } : {};
    if (isBeside) this.#candidateLost(end, why);
    // Without a token there is none for another transport either.
    else this.#recover(end, why, null, error.code === NO_TOKEN);
  }

  /** Nothing is under way any more, but what is in use. */
  #cancelDial(): void {
    this.#planning = null;
    this.#discard(this.#candidate);
    this.#candidate = null;
  }

  /** From now on this one is in use, or none. */
  #changeTo(next: Connection | null): void {
    const last = this.#current;
    this.#current = next;
    // The one that was under way is this one.
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

  /** To be called last: `onStatus` may close the session, or use another transport. */
  #report(state: Status["state"], reason: string | null = null, retryAt?: number): void {
    const transport = this.#current?.transport ?? (state === "connecting" ? this.#fallback.current() : null);
    this.#hooks.onStatus({ state, transport: transport && transport.name, reason, retryAt });
  }

  // What its connections tell.

  opened(connection: Connection): void {
    this.#hooks.opened(connection);
  }

  established(connection: Connection): void {
    if (connection === this.#candidate) this.#changeTo(connection);
    this.#unauthorized = 0;
    if (this.#fallback.worked(connection.transport)) this.#upgrades.reset(0);
    const { base, transports } = this.#settings;
    // A choice of one says nothing of the way.
    if (transports[1]) this.#page.remember(base.origin, connection.transport.name);
    if (this.#fallback.isBest()) this.#upgrades.reset();
    else this.#upgrades.start();
    this.#report("open");
  }

  received(connection: Connection, message: Message, bytes: number): void {
    this.#hooks.received(connection, message, bytes);
  }

  drained(): Promise<void> | null {
    return this.#hooks.drained();
  }

  expiring(connection: Connection): void {
    if (connection === this.#current) this.#hooks.expiring(connection);
  }

  lost(connection: Connection, end: End, why: string): void {
    if (connection === this.#candidate) {
      this.#cancelDial();
      this.#candidateLost(end, why);
    } else if (connection === this.#current) this.#recover(end, why, connection);
  }

  /** What was tried beside the connection in use did not come about. */
  #candidateLost(end: End, why: string): void {
    if (this.#isStale) this.#recover(end, why, null);
    else if (!this.#fallback.isBest()) this.#upgrades.start();
  }

  /**
   * The connection in use is over, or cannot stay: gives up for good, or finds the next one.
   *
   * @param last - the one that is over; `null` if there was none, or it had to be replaced.
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

/** A transport that the server itself ended, or refused, has not failed. */
function isServersDecision({ close, refusal }: End): boolean {
  return !!(refusal?.error || refusal?.retryAfter) || (close !== undefined && close.code !== 1006);
}
