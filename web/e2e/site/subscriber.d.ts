/** The functions of the page of `subscriber.js`, for tests. */

import type { ConnectOptions, Gap, Session, Status, SubscribeOptions, Subscription, TransportName } from "thalweg";
import type { ColumnOptions } from "thalweg/arrow";

export interface Book {
  readonly count: number;
  readonly batches: number;
  readonly first: number | null;
  readonly last: number | null;
  /** Events whose number did not follow the previous one. */
  readonly faults: readonly { expected: number; came: number }[];
  readonly gaps: readonly Gap[];
  /** The columns of each table that has other columns than the previous one. */
  readonly schemas: readonly (readonly string[])[];
  readonly statuses: readonly Status[];
}

export interface Opening extends Omit<ConnectOptions, "transports" | "token" | "onStatus" | "fetch"> {
  /** Names, or the transports that `published()` returns. */
  transports?: readonly TransportName[] | "published";
  /** `#` is replaced by the number of requests for a token. */
  token?: string;
  isInWorker?: boolean;
  /** Whether the tabs share a connection. */
  isShared?: boolean;
  /** Whether the session is woken as soon as it waits to reconnect. */
  isImpatient?: boolean;
}

export interface ColumnOpening extends Omit<ColumnOptions, "token" | "onStatus" | "onError" | "fetch"> {
  token?: string;
  isImpatient?: boolean;
}

export interface Page {
  readonly book: Book;
  readonly session: Session;
  readonly subscription: Subscription<unknown>;
  open(opening?: Opening): void;
  subscribe(topic: string, options?: SubscribeOptions): void;
  columns(topic: string, options?: ColumnOpening): void;
  again(topic: string, options?: SubscribeOptions): void;
  isImpatient: boolean;
  wake(): void;
  use(name: TransportName | null): void;
  rest(): void;
  goOn(): void;
  until(test: (book: Book, status: Status) => boolean): Promise<Book>;
}

declare global {
  // A global of the test's page. Node does not have it.
  var e2e: Page;
}
