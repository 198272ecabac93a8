/**
 * Reads one topic as columns, over one connection after another. The reader requests bytes only after it has processed
 * the previous ones. Data therefore does not queue up, and a slow page reads slowly.
 *
 * The path of a batch: `#read` takes a piece of the body, `Messages` and `Frames` make tables, `#deliver` passes each
 * table to the page and waits for it. After a connection is lost, `#run` requests the events after the last batch, at
 * once or after a delay.
 */

import { backoff, retryAfter } from "../backoff.js";
import { pieces, Turns } from "../body.js";
import { ENDED, finalError, safely, ThalwegError } from "../errors.js";
import { type RequestSettings, requestSettings } from "../options.js";
import { thisPage } from "../page.js";
import type { End } from "../transports/transport.js";
import { type Close, type Cursor, type Message, type Position, quantity, reconnects, topicPath } from "../wire.js";
import type { ColumnBatch, ColumnListener, ColumnOptions, ColumnStatus, ColumnStream } from "./column-stream.js";
import { type Frame, Frames } from "./frames.js";
import { Messages } from "./messages.js";
import { type Silence, silence } from "./silence.js";
import { type Start, startOf, TYPE } from "./start.js";

/** The close code if events are missing, or if the next events have other columns. The next stream reports which. */
const RELOAD = 4003;

interface Ended extends End {
  readonly why: string;
  /** Whether the server ended the stream after some rows in order to begin another one at the cursor. */
  readonly isTurn?: boolean;
}

export class ColumnReader implements ColumnStream {
  readonly #topic: string;
  readonly #url: URL;
  readonly #settings: RequestSettings;
  readonly #options: ColumnOptions;
  readonly #listener: ColumnListener;
  readonly #unwatchPage: () => void;
  #status: ColumnStatus = { state: "connecting", reason: null };
  #cursor: Cursor;
  #position: Position | null = null;
  #at: Start | null = null;
  /** The columns of the last batch. */
  #schemaKey: string | null = null;
  #abort = new AbortController();
  /** Ends the delay before the next attempt. */
  #wake = (): void => {};
  readonly #backoff = backoff();
  /** Time when the connection in use was established; `Infinity` before. */
  #begunAt = Infinity;
  /** Number of tokens rejected since data last arrived. */
  #unauthorized = 0;

  constructor(base: URL, topic: string, from: Cursor, options: ColumnOptions, listener: ColumnListener) {
    this.#topic = topic;
    this.#options = options;
    this.#url = new URL(topicPath(topic), base);
    this.#settings = requestSettings(options);
    this.#listener = listener;
    this.#cursor = from;
    this.#unwatchPage = thisPage.watch({ woke: () => this.#wake(), hidden() {} });
    // The page must have the stream before the first status is reported.
    queueMicrotask(() => void this.#run());
  }

  get status(): ColumnStatus {
    return this.#status;
  }

  get position(): Position | null {
    return this.#position;
  }

  reconnect(): void {
    this.#wake();
  }

  close(): void {
    this.#end(null);
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const end = await this.#connect();
      if (this.#isOver) return;
      const error = this.#finalError(end);
      if (error) this.#end(error);
      else if (end.isTurn) this.#report("connecting", end.why);
      else await this.#pause(end);
    }
  }

  get #isOver(): boolean {
    return this.#status.state === "closed";
  }

  #finalError(end: End): ThalwegError | null {
    const { close } = end;
    if (close?.code === ENDED) return new ThalwegError(close.end?.code ?? "close_4500", (close.end ?? close).reason);
    return finalError(end, () => ++this.#unauthorized);
  }

  async #pause({ refusal, why }: Ended): Promise<void> {
    const waitMs = this.#backoff(Date.now() - this.#begunAt, refusal?.retryAfter);
    this.#report("waiting", refusal?.error?.message ?? why, Date.now() + waitMs);
    await new Promise<void>((go) => {
      const timer = setTimeout(go, waitMs);
      this.#wake = () => {
        clearTimeout(timer);
        go();
      };
    });
    this.#report("connecting");
  }

  #end(error: ThalwegError | null): void {
    if (this.#isOver) return;
    this.#unwatchPage();
    this.#report("closed", error && error.message);
    this.#abort.abort();
    this.#wake();
    if (error) safely(() => this.#options.onError?.(error));
  }

  #report(state: ColumnStatus["state"], reason: string | null = null, retryAt?: number): void {
    const { state: before, reason: itsReason } = this.#status;
    if (this.#isOver || (before === state && itsReason === reason && !retryAt)) return;
    this.#status = { state, reason, retryAt };
    safely(() => this.#options.onStatus?.(this.#status));
  }

  async #connect(): Promise<Ended> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#begunAt = Infinity;
    const { connectTimeout, idleTimeout, fetch, token: freshToken } = this.#settings;
    const quiet = silence(connectTimeout, () => abort.abort("silent"));
    try {
      const token = await freshToken();
      const headers = { Accept: TYPE, ...(token && { Authorization: `Bearer ${token}` }) };
      const response = await fetch(this.#requestUrl(), { headers, cache: "no-store", signal: abort.signal });
      const { ok, status, body } = response;
      if (!ok || !body) {
        // A response that a proxy creates has no error of the server.
        const { error } = (await response.json().catch(() => ({}))) as Message;
        return { refusal: { status, error, retryAfter: retryAfter(response) }, why: `rejected with ${status}` };
      }
      const start = startOf(response.headers, this.#cursor);
      quiet.received(idleTimeout);
      this.#begin(start);
      return await this.#read(body, quiet);
    } catch (error) {
      return { why: abort.signal.aborted ? String(abort.signal.reason) : `${error}` };
    } finally {
      quiet.stop();
      abort.abort();
    }
  }

  #requestUrl(): URL {
    const url = new URL(this.#url);
    const { interval = 0, policy } = this.#options;
    const parameters = { cursor: this.#cursor, interval: quantity(Math.ceil(interval), "ms"), policy };
    for (const [name, value] of Object.entries(parameters)) if (value) url.searchParams.set(name, value);
    return url;
  }

  #begin(start: Start): void {
    this.#at = start;
    this.#begunAt = Date.now();
    this.#report("open");
    // A gap is reported with a batch. If the connection ends before that, the next one begins before the gap.
    if (!start.gap) this.#cursor = this.#position = start.position;
  }

  async #read(body: ReadableStream<Uint8Array>, quiet: Silence): Promise<Ended> {
    const next = pieces(body);
    const { reuse } = this.#options;
    const messages = new Messages(reuse);
    const frames = new Frames(reuse);
    const turns = new Turns();
    let close: Close | undefined;
    let hasRows = false;
    while (!messages.isOver) {
      const piece = await next();
      if (!piece) return { why: "cut" };
      quiet.received(this.#settings.idleTimeout);
      messages.push(piece);
      for (let message = messages.next(); message; message = messages.next()) {
        const frame = frames.take(message);
        if (!frame) continue;
        hasRows ||= frame.count > 0;
        this.#unauthorized = 0;
        close ??= closeOf(frame);
        const processed = this.#deliver(frame, this.#at as Start);
        if (processed) await quiet.waitFor(processed);
        await turns.next();
        if (this.#isOver) return { why: "closed" };
      }
    }
    if (close && close.code !== RELOAD) return { close, why: close.reason };
    return { isTurn: hasRows, why: "the stream restarts" };
  }

  /** Passes a batch to the page, if there are rows or a gap. @returns a promise to await while the page is busy. */
  #deliver(frame: Frame, { epoch, offset, gap, isOtherSchema }: Start): Promise<void> | undefined {
    const { schema, table, count, first, bytes } = frame;
    if (!count && !gap) return;
    if (count && first <= offset) throw new RangeError(`event ${first} is a repeat`);
    const last = count ? frame.last : offset;
    const position = `${epoch}.${last}`;
    const schemaChanged = isOtherSchema || (this.#schemaKey !== null && this.#schemaKey !== schema.key);
    this.#schemaKey = schema.key;
    this.#at = { position, epoch, offset: last, gap: null, isOtherSchema: false };
    const batch: ColumnBatch = {
      topic: this.#topic,
      table,
      count,
      first: count ? first : offset + 1,
      position,
      gap,
      schemaChanged,
      bytes,
    };
    const done = (): void => {
      this.#cursor = this.#position = position;
    };
    const pending = safely(() => this.#listener(batch));
    if (pending) return Promise.resolve(pending).catch(uncaught).then(done);
    done();
  }
}

function uncaught(error: unknown): void {
  safely(() => {
    throw error;
  });
}

/** Returns the close message of a stream. @throws if it does not match docs/reference/columns.md. */
function closeOf({ metadata }: Frame): Close | undefined {
  const text = metadata.get("thalweg.close");
  if (text === undefined) return undefined;
  const { code, reason, reconnect, end } = JSON.parse(text) as Close;
  return { code: Number(code), reason: String(reason), reconnect: reconnect ?? reconnects(code), end };
}
