/**
 * Live data from a Thalweg server: topics over whichever transport works, resumed where
 * one was.
 *
 * @packageDocumentation
 */

export { ThalwegError } from "./errors.js";
export type { Status } from "./route.js";
export { type ConnectOptions, connect, type Published, type Session } from "./session.js";
export type { Batch, Listener, Policy, SubscribeOptions, Subscription } from "./subscription.js";
export type {
  ConnectPlan,
  End,
  Link,
  TopicCursor,
  Transport,
  TransportHandlers,
  TransportName,
} from "./transports/transport.js";
export type {
  Answer,
  Close,
  Cursor,
  Envelope,
  Gap,
  Message,
  Position,
  Refusal,
} from "./wire.js";
