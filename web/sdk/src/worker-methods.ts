/** The calls between a page and the host of its session, which runs in a Worker. */

import type { Published, PublishTarget } from "./commands.js";
import type { ConnectOptions } from "./options.js";
import type { SerializedError } from "./rpc.js";
import type { Status } from "./status.js";
import type { Batch, SubscribeOptions } from "./subscription.js";
import type { TransportName } from "./transports/transport.js";
import type { Position } from "./wire.js";

/** Options that can be posted. @internal */
export type PlainOptions = Omit<ConnectOptions, "token" | "onStatus" | "fetch" | "transports"> & {
  transports?: readonly TransportName[];
};

/** The methods that a page calls. A key identifies a subscription. @internal */
export type HostMethods = {
  open(base: string, options: PlainOptions, recalled: string | null, hasToken: boolean): void;
  subscribe(key: number, topic: string, options: SubscribeOptions): void;
  unsubscribe(key: number): void;
  /** All of the page's subscriptions that share this one have processed `count` more batches. */
  processed(key: number, count: number): void;
  ack(key: number): void;
  publish(topic: string | PublishTarget, events: unknown[]): Promise<Published>;
  request(data: unknown): Promise<unknown>;
  use(transport: TransportName | null): void;
  woke(): void;
  reconnect(): void;
  hidden(isHidden: boolean): void;
  close(): void;
};

/** The methods of a page that the Worker calls. @internal */
export type PageMethods = {
  /** The host is there. */
  ready(): void;
  batches(batches: readonly [key: number, batch: Batch<unknown>][]): void;
  /** The subscription has all events up to this position, and the page has processed them. */
  confirmed(key: number, position: Position): void;
  /** The next state of this map is a whole one. */
  restarts(key: number): void;
  failed(key: number, error: SerializedError): void;
  status(status: Status): void;
  remember(name: string): void;
  token(): string | Promise<string>;
};
