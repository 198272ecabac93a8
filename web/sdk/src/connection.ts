/**
 * One connection over one transport, judged by what arrives: it has so long to say its
 * first word, and may never be silent for longer than heartbeats allow.
 */

import type { ConnectPlan, End, Link, TopicCursor, Transport } from "./transports/transport.js";
import type { Message } from "./wire.js";

/** What a connection tells whoever opened it. @internal */
export interface ConnectionHooks {
  /** It can be spoken to. Two-way transports only. */
  opened(connection: Connection): void;
  /** The first message is here: it works. */
  worked(connection: Connection): void;
  received(connection: Connection, message: Message, bytes: number): void;
  /** It is over. */
  lost(connection: Connection, end: End, why: string): void;
  drained(): Promise<void> | null;
}

/** A topic on a connection. @internal */
export interface Carried {
  /** Whose events come: of a topic that was given up and taken again not the new one's. */
  readonly by: TopicCursor;
  /** As it was asked for; `null`: it has been given up, and that is not answered yet. */
  interval: number | null;
}

/** @internal */
export interface Connection {
  readonly transport: Transport;
  /** By topic. A one-way transport carries what was planned, for as long as it lasts. */
  readonly carried: Map<string, Carried>;
  /** Whether it can be spoken to. */
  isOpen: boolean;
  /** Whether something has arrived. */
  isWorking: boolean;
  send(text: string): void;
  /** Ends it; its hooks hear no more. */
  close(): void;
}

/**
 * @param connectTimeoutMs - how long it may take until the first message.
 * @param idleTimeoutMs - how long between two messages.
 * @internal
 */
export function connection(
  transport: Transport,
  plan: ConnectPlan,
  hooks: ConnectionHooks,
  connectTimeoutMs: number,
  idleTimeoutMs: number,
): Connection {
  let link: Link | undefined;
  let isOver = false;
  /** Whether it is the page that is waited for. */
  let isHeld = false;
  let heardAt = Date.now();
  let allowedMs = connectTimeoutMs;
  const self: Connection = {
    transport,
    carried: new Map(transport.isTwoWay ? [] : plan.topics.map((by) => [by.topic, { by, interval: 0 }])),
    isOpen: false,
    isWorking: false,
    send: (text) => link?.send?.(text),
    close() {
      isOver = true;
      self.isOpen = false;
      clearTimeout(timer);
      link?.close();
    },
  };
  const over = (end: End, why: string): void => {
    if (isOver) return;
    self.close();
    hooks.lost(self, end, why);
  };
  /** Something is due by now. */
  const judge = (): void => {
    const left = isHeld ? allowedMs : heardAt + allowedMs - Date.now();
    if (left > 0) timer = setTimeout(judge, left);
    else over({}, "silent");
  };
  let timer = setTimeout(judge, allowedMs);
  const message = (message: Message, bytes: number): void => {
    if (isOver) return;
    heardAt = Date.now();
    if (message.close) {
      over(message as End, message.close.reason);
      return;
    }
    if (!self.isWorking) {
      self.isWorking = true;
      allowedMs = idleTimeoutMs;
      clearTimeout(timer);
      judge();
      hooks.worked(self);
    }
    hooks.received(self, message, bytes);
  };
  try {
    link = transport.open(plan, {
      opened() {
        self.isOpen = true;
        hooks.opened(self);
      },
      text(text) {
        try {
          message(JSON.parse(text) as Message, text.length);
        } catch (error) {
          over({}, `not the wire: ${error}`);
        }
      },
      ended: (end) => over(end, end.close?.reason || "cut"),
      async drained() {
        const drained = hooks.drained();
        if (!drained) return;
        isHeld = true;
        await drained;
        isHeld = false;
        heardAt = Date.now();
      },
    });
  } catch (error) {
    // Not here and now: whoever opened it does not know it yet.
    queueMicrotask(() => over({}, `${error}`));
  }
  return self;
}
