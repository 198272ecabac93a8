/**
 * One connection over one transport. It is established by its first message, which must arrive within a timeout.
 * After that it may not be silent for longer than the idle timeout.
 */

import type { ConnectPlan, End, Link, TopicCursor, Transport, TransportHandlers } from "./transports/transport.js";
import type { Message } from "./wire.js";

/** Shortest time between two renewals of a token, ms. The limit protects against a page whose clock is wrong. */
const RENEWAL_MS_MIN = 5000;
/** Longest time until a renewal, ms. A timer fires at once if its delay exceeds 2³¹ − 1 ms. */
const RENEWAL_MS_MAX = 1e9;

/** The part of a route that its connections use. @internal */
export interface ConnectionOwner {
  established(connection: Connection): void;
  /** The connection has ended on its own. */
  lost(connection: Connection, end: End, why: string): void;
  expiring(connection: Connection): void;
}

/** The part of a session that its connections use. @internal */
export interface MessageHooks {
  /** Commands can be sent over the connection. For two-way transports only. */
  opened(connection: Connection): void;
  received(connection: Connection, message: Message, bytes: number): void;
  readonly flow: {
    /** Returns a promise to await before reading more; `null` if the page keeps up. */
    drained(): Promise<void> | null;
  };
}

/** A topic on a connection. @internal */
export interface Carried {
  /**
   * The subscription that receives the events. If the page unsubscribes and subscribes again, the new
   * subscription does not receive events of the old one.
   */
  readonly by: TopicCursor;
  /** The requested interval, ms; `null`: an unsubscribe is in flight. */
  interval: number | null;
}

/** Timeouts of a connection. @internal */
export interface Timeouts {
  /** Longest time until the first message, ms. */
  readonly connectTimeout: number;
  /** Longest time between two messages, ms. */
  readonly idleTimeout: number;
}

/** @internal */
export interface Connection {
  readonly transport: Transport;
  /** Topics by name. A one-way connection keeps the topics of its plan. */
  readonly carried: Map<string, Carried>;
  /** Whether commands can be sent. */
  isOpen: boolean;
  isEstablished: boolean;
  /** Time since the connection was established, ms. */
  livedMs(): number;
  send(text: string): void;
  /** Sets the remaining lifetime of the connection's token, ms; `null`: it does not expire. */
  lasts(lifetimeMs: number | null): void;
  /** Closes the connection. No hook is called afterwards. */
  close(): void;
}

/** @internal */
export function connection(
  transport: Transport,
  plan: ConnectPlan,
  owner: ConnectionOwner,
  hooks: MessageHooks,
  { connectTimeout, idleTimeout }: Timeouts,
): Connection {
  let link: Link | undefined;
  let isOver = false;
  /** Whether the connection waits for the page, and not for the server. */
  let isPaused = false;
  let lastMessageAt = Date.now();
  let timeoutMs = connectTimeout;
  let establishedAt = Infinity;
  let expiry: ReturnType<typeof setTimeout> | undefined;
  const self: Connection = {
    transport,
    carried: new Map(transport.isTwoWay ? [] : plan.topics.map((by) => [by.topic, { by, interval: 0 }])),
    isOpen: false,
    isEstablished: false,
    livedMs: () => Math.max(0, Date.now() - establishedAt),
    send: (text) => link?.send?.(text),
    lasts(lifetimeMs) {
      clearTimeout(expiry);
      if (lifetimeMs !== null) expiry = setTimeout(() => owner.expiring(self), renewal(lifetimeMs));
    },
    close() {
      isOver = true;
      self.isOpen = false;
      clearTimeout(timer);
      clearTimeout(expiry);
      link?.close();
    },
  };

  const finish = (end: End, why: string): void => {
    if (isOver) return;
    self.close();
    owner.lost(self, end, why);
  };

  const checkTimeout = (): void => {
    const leftMs = isPaused ? timeoutMs : lastMessageAt + timeoutMs - Date.now();
    if (leftMs > 0) timer = setTimeout(checkTimeout, leftMs);
    else finish({}, "silent");
  };
  let timer = setTimeout(checkTimeout, timeoutMs);

  const establish = (): void => {
    self.isEstablished = true;
    establishedAt = Date.now();
    timeoutMs = idleTimeout;
    clearTimeout(timer);
    checkTimeout();
    self.lasts(lifetime(plan.token));
    owner.established(self);
  };

  const receive = (message: Message, bytes: number): void => {
    if (isOver) return;
    lastMessageAt = Date.now();
    if (message.close) {
      finish(message as End, message.close.reason);
      return;
    }
    if (!self.isEstablished) establish();
    hooks.received(self, message, bytes);
  };

  const handlers: TransportHandlers = {
    opened() {
      self.isOpen = true;
      hooks.opened(self);
    },
    text(text) {
      try {
        receive(JSON.parse(text) as Message, text.length);
      } catch (error) {
        finish({}, `invalid message: ${error}`);
      }
    },
    ended: (end) => finish(end, end.close?.reason || "cut"),
    async drained() {
      const drained = hooks.flow.drained();
      if (!drained) return;
      isPaused = true;
      await drained;
      isPaused = false;
      lastMessageAt = Date.now();
    },
  };

  try {
    link = transport.open(plan, handlers);
  } catch (error) {
    // Report the error in a microtask, so that `connection()` has returned before the owner's `lost` is
    // called.
    queueMicrotask(() => finish({}, `${error}`));
  }
  return self;
}

/** Returns the lifetime of a JSON Web Token, ms; `null` for other tokens. An `iat` ahead of the page's clock counts as now. */
function lifetime(token: string | null): number | null {
  try {
    const claims = `${token}`.split(".")[1] as string;
    const { exp, iat = 0 } = JSON.parse(atob(claims.replace(/-/g, "+").replace(/_/g, "/")));
    return exp > 0 ? exp * 1000 - Math.max(Date.now(), iat * 1000) : null;
  } catch {
    return null;
  }
}

/** Returns three quarters of the lifetime, plus jitter, so that tabs do not request the next token at the same time. */
function renewal(lifetimeMs: number): number {
  return Math.min(Math.max(lifetimeMs * (0.75 + Math.random() * 0.15), RENEWAL_MS_MIN), RENEWAL_MS_MAX);
}
