/** What a page gives to a stream of columns, and gets of it. */

import type { ThalwegError } from "../errors.js";
import type { ConnectOptions } from "../options.js";
import type { Status } from "../route.js";
import type { SubscribeOptions } from "../subscription.js";
import type { Gap, Position } from "../wire.js";
import type { ColumnTable } from "./table.js";

/** The options of `columns`. All of them can be left out. */
export interface ColumnOptions
  extends Pick<ConnectOptions, "token" | "connectTimeout" | "idleTimeout" | "fetch">,
    Pick<SubscribeOptions, "from" | "interval" | "policy"> {
  /**
   * Whether the memory of a batch is used again when it is processed. Then its table, columns and
   * arrays must not be kept any longer; what was read of them, numbers and texts, may be. A lot of columns
   * takes a page less time then. `false` if it is left out: tables stay as they are.
   */
  reuse?: boolean;
  /** Called with each new status; never twice with the same. */
  onStatus?: (status: ColumnStatus) => void;
  /** Called once if something else than {@link ColumnStream.close} ends the stream. Its status then says so, too. */
  onError?: (error: ThalwegError) => void;
}

/** How a stream of columns is: as a session's {@link Status}, but it has one way to come, and is never `idle`. */
export type ColumnStatus = Omit<Status, "transport">;

/** Rows of a topic, in order. There is at least one row or a gap. Each row comes once, whatever happens to connections. */
export interface ColumnBatch {
  /** The topic of the rows. */
  readonly topic: string;
  /** The rows, a row for each event: a table of its own, which stays as it is unless {@link ColumnOptions.reuse} is set. */
  readonly table: ColumnTable;
  /** Rows of the table. */
  readonly count: number;
  /** The offset of the first row; without rows, of the one that would come next. */
  readonly first: number;
  /**
   * The position of the last row. To go on later keep it when the batch is processed, and give it
   * as {@link ColumnOptions.from}.
   */
  readonly position: Position;
  /** Events that were missed before these rows; `null` if none were. */
  readonly gap: Gap | null;
  /** Whether the columns are others than before, by name, type or order. */
  readonly schemaChanged: boolean;
  /** Its size on the wire. */
  readonly bytes: number;
}

/**
 * Processes a batch. The batch counts as processed when it returns; if it returns a promise, when
 * that is settled. Until then nothing more is read, and the network holds the server back. What it
 * throws is an uncaught error of the page; the stream goes on.
 */
export type ColumnListener = (batch: ColumnBatch) => void | Promise<void>;

/** A topic that comes as columns. */
export interface ColumnStream {
  /** The latest status. */
  readonly status: ColumnStatus;
  /**
   * The position of the last batch that was processed; before the first one, where the stream
   * began; `null` until the server has confirmed that.
   */
  readonly position: Position | null;
  /** Connects at once, where the stream waits for its next attempt (`status.retryAt`). Does nothing otherwise. */
  reconnect(): void;
  /** Ends the stream: no batch comes any more. */
  close(): void;
}
