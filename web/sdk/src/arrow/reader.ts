/**
 * One topic as columns, over one connection after the other. Bytes are asked for when those before
 * them are processed: nothing waits here, and a page that is slow is a slow reader.
 *
 * One batch: `#read` takes a piece of the body, `Messages` and `Frames` make tables of it, `#deliver`
 * hands each to the page and waits for it. One connection that is lost: `#run` waits, or does not,
 * and asks for what comes after the last batch.
 */

import { backoff, retryAfter } from "../backoff.js";
import { pieces } from "../body.js";
import { ENDED, finalError, safely, ThalwegError } from "../errors.js";
import { type RequestSettings, requestSettings } from "../options.js";
import { thisPage } from "../page.js";
import type { End } from "../transports/transport.js";
import { Turns } from "../turns.js";
import {
  type Close,
  type Cursor,
  cursorOf,
  type Message,
  type Position,
  quantity,
  reconnects,
  topicPath,
} from "../wire.js";
import type { ColumnBatch, ColumnListener, ColumnOptions, ColumnStatus, ColumnStream } from "./column-stream.js";
import { type Frame, Frames } from "./frames.js";
import { Messages } from "./messages.js";
import { type Silence, silence } from "./silence.js";
import { type Start, startOf, TYPE } from "./start.js";

/** Events are missing, or the next ones have other columns: another stream says which. */
const RELOAD = 4003;

/** How a connection ended, in words as well. */
interface Ended extends End {
  readonly why: string;
  /** Whether the server, after some rows, has ended the stream in order to begin another one at the cursor. */
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
  /** Where the connection in use is. */
  #at: Start | null = null;
  /** The columns of the last batch. */
  #schemaKey: string | null = null;
  /** Ends the connection in use, or the attempt at one. */
  #abort = new AbortController();
  /** Ends the pause before the next attempt. */
  #wake = (): void => {};
  readonly #backoff = backoff();
  /** When the connection in use began to work; `Infinity` before. */
  #begunAt = Infinity;
  /** Refusals of a token since something last arrived. */
  #unauthorized = 0;

  constructor(base: URL, topic: string, options: ColumnOptions, listener: ColumnListener) {
    this.#topic = topic;
    this.#options = options;
    this.#url = new URL(topicPath(topic), base);
    this.#settings = requestSettings(options);
    this.#listener = listener;
    this.#cursor = cursorOf(options.from);
    this.#unwatchPage = thisPage.watch({ woke: () => this.#wake(), hidden() {} });
    // Not before the page has it in its hands.
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
    if (!this.#isOver) this.#report("connecting");
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

  /** Opens a connection and reads it, until it ends. */
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
        // One that is not ours is of whoever stands in between.
        const { error } = (await response.json().catch(() => ({}))) as Message;
        return { refusal: { status, error, retryAfter: retryAfter(response) }, why: `refused with ${status}` };
      }
      const start = startOf(response.headers, this.#cursor);
      quiet.heard(idleTimeout);
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
    // What is missed is told with a batch: a connection that ends before begins where it is missed.
    if (!start.gap) this.#cursor = this.#position = start.position;
  }

  async #read(body: ReadableStream<Uint8Array>, quiet: Silence): Promise<Ended> {
    const next = pieces(body);
    const { reuse } = this.#options;
    const messages = new Messages(reuse);
    const frames = new Frames(reuse);
    const turns = new Turns();
    let close: Close | undefined;
    let hasCome = false;
    while (!messages.isOver) {
      const piece = await next();
      if (!piece) return { why: "cut" };
      quiet.heard(this.#settings.idleTimeout);
      messages.push(piece);
      for (let message = messages.next(); message; message = messages.next()) {
        const frame = frames.take(message);
        if (!frame) continue;
        hasCome ||= frame.count > 0;
        this.#unauthorized = 0;
        close ??= closeOf(frame);
        const processed = this.#deliver(frame, this.#at as Start);
        if (processed) await quiet.waitFor(processed);
        await turns.next();
        if (this.#isOver) return { why: "closed" };
      }
    }
    if (close && close.code !== RELOAD) return { close, why: close.reason };
    return { isTurn: hasCome, why: "the stream begins anew" };
  }

  /** Hands the page what is new, if anything is. @returns what to wait for, if the page is not done with it. */
  #deliver(frame: Frame, { epoch, offset, gap, isOtherSchema }: Start): Promise<void> | undefined {
    const { schema, table, count, first, bytes } = frame;
    if (!count && !gap) return;
    if (count && first <= offset) throw new RangeError(`event ${first} has come before`);
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

/** As if nobody had waited for it. */
function uncaught(error: unknown): void {
  safely(() => {
    throw error;
  });
}

/** What a server ends a connection with. @throws if it is not as docs/wire.md has it. */
function closeOf({ metadata }: Frame): Close | undefined {
  const text = metadata.get("thalweg.close");
  if (text === undefined) return undefined;
  const { code, reason, reconnect, end } = JSON.parse(text) as Close;
  return { code: Number(code), reason: String(reason), reconnect: reconnect ?? reconnects(code), end };
}
