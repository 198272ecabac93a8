/** What the page of `subscriber.js` offers to whoever drives it. */

import type { ConnectOptions, Gap, Session, Status, SubscribeOptions, Subscription, TransportName } from "thalweg";
import type { ColumnOptions } from "thalweg/arrow";

export interface Book {
  /** Events, and batches of them. */
  readonly count: number;
  readonly batches: number;
  readonly first: number | null;
  readonly last: number | null;
  /** What did not follow what came before it. */
  readonly faults: readonly { expected: number; came: number }[];
  readonly gaps: readonly Gap[];
  /** The columns of a table that had others than the one before. */
  readonly schemas: readonly (readonly string[])[];
  readonly statuses: readonly Status[];
}

/** Options that can be sent to a page. */
export interface Opening extends Omit<ConnectOptions, "transports" | "token" | "onStatus" | "fetch"> {
  transports?: readonly TransportName[];
  /** `#` in it becomes how often it was asked for. */
  token?: string;
  /** Whether its connection runs in a Worker. */
  isInWorker?: boolean;
  /** Whether it is woken as soon as it waits to reconnect. */
  isImpatient?: boolean;
}

/** As {@link Opening}, of columns. */
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
  // What the page of a test has; in Node there is none.
  var e2e: Page;
}
