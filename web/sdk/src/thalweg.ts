/**
 * Live data from a Thalweg server: topics over any transport that works, with exact resumption after a reconnect.
 *
 * @packageDocumentation
 */

export type { Published, PublishTarget } from "./commands.js";
export { ThalwegError } from "./errors.js";
export type { KeyedBatch, KeyedListener, KeyedOptions, KeyedSubscription, MemberEntry } from "./map.js";
export type { ConnectOptions, Member } from "./options.js";
export { connect, type Session } from "./session.js";
export type { Status } from "./status.js";
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
  Ended,
  Envelope,
  Gap,
  Message,
  Newest,
  Position,
  Refusal,
  Start,
} from "./wire.js";
