/**
 * One connection over one transport, judged by what arrives: it has so long until its
 * first message, and may never be silent for longer than heartbeats allow.
 */

import { lifetime, renewal } from "./lifetime.js";
import type { ConnectPlan, End, Link, TopicCursor, Transport, TransportHandlers } from "./transports/transport.js";
import type { Message } from "./wire.js";

/** What a connection tells whoever opened it. @internal */
export interface ConnectionHooks {
  /** Commands can be sent over it. Two-way transports only. */
  opened(connection: Connection): void;
  /** The first message is here: it works. */
  established(connection: Connection): void;
  received(connection: Connection, message: Message, bytes: number): void;
  /** It is over. */
  lost(connection: Connection, end: End, why: string): void;
  drained(): Promise<void> | null;
  /** Its token will end before long. */
  expiring(connection: Connection): void;
}

/** A topic on a connection. @internal */
export interface Carried {
  /** Whose events come: of a topic that was given up and taken again not the new one's. */
  readonly by: TopicCursor;
  /** As it was asked for; `null`: it has been given up, and that is not answered yet. */
  interval: number | null;
}

/** How long a connection may be silent. @internal */
export interface Timeouts {
  /** Until its first message, ms. */
  readonly connectTimeout: number;
  /** Between two messages, ms. */
  readonly idleTimeout: number;
}

/** @internal */
export interface Connection {
  readonly transport: Transport;
  /** By topic. A one-way transport carries what was planned, for as long as it lasts. */
  readonly carried: Map<string, Carried>;
  /** Whether commands can be sent over it. */
  isOpen: boolean;
  /** Whether something has arrived. */
  isEstablished: boolean;
  /** For how long it has worked, ms. */
  livedMs(): number;
  send(text: string): void;
  /** Its token lasts so long from now on, ms; `null`: it does not end. */
  lasts(lifetimeMs: number | null): void;
  /** Ends it; its hooks hear no more. */
  close(): void;
}

/** @internal */
export function connection(
  transport: Transport,
  plan: ConnectPlan,
  hooks: ConnectionHooks,
  { connectTimeout, idleTimeout }: Timeouts,
): Connection {
  let link: Link | undefined;
  let isOver = false;
  /** Whether it is the page that is waited for, and not the server. */
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
      if (lifetimeMs !== null) expiry = setTimeout(() => hooks.expiring(self), renewal(lifetimeMs));
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
    hooks.lost(self, end, why);
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
    hooks.established(self);
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
        finish({}, `not the wire: ${error}`);
      }
    },
    ended: (end) => finish(end, end.close?.reason || "cut"),
    async drained() {
      const drained = hooks.drained();
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
    // Not here and now: whoever opened it does not know it yet.
    queueMicrotask(() => finish({}, `${error}`));
  }
  return self;
}
