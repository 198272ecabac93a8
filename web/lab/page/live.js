/**
 * Looks on at the live page: when a message comes, over a WebSocket or as a frame of Arrow, when
 * the page has handled it, and when its newest row has been painted; and how long input waits. The
 * page has its own script, and knows nothing of it.
 *
 * @typedef {object} Ears - what hears of what comes.
 * @property {(message: string) => { last: number, dueUs: number }} message - of a WebSocket.
 * @property {(offset: number, isGap: boolean) => void} begins - a stream of columns, behind an offset;
 *   whether something is missing before it.
 * @property {(frame: FrameHead) => void} frame - of such a stream.
 */

/** What has come and is not painted yet is kept so far; a page that is farther behind skips some. */
const UNPAINTED_MAX = 4096;
/** Latencies of a span are kept, one for each painted message; the newest. */
const LOOKS_MAX = 20_000;
const INPUTS_MAX = 10_000;
/** What a client asks for that takes columns. */
const ARROW_TYPE = "application/vnd.apache.arrow.stream";

class LiveLooks {
  constructor() {
    /** `handledMs` is 0 until it is. @type {{ last: number, cameMs: number, dueMs: number, handledMs: number }[]} */
    this.unpainted = [];
    /** What has come of a body and is not handled. @type {LiveLooks["unpainted"]} */
    this.unhandled = [];
    /** When an input's handler ran, and how long after the input, ms. @type {number[][]} */
    this.inputs = [];
    /** When it was painted, and by how much: due to came, came to handled, handled to painted, ms. @type {number[][]} */
    this.looks = [];
  }

  /** @param {Ears} ears */
  watch(ears) {
    this.watchSockets(ears);
    this.watchBodies(ears);
    for (const type of ["mousedown", "mouseup"]) {
      const heard = (/** @type {Event} */ { timeStamp }) => {
        this.inputs.push([clockMs(), performance.now() - timeStamp]);
        if (this.inputs.length > INPUTS_MAX) this.inputs.splice(0, INPUTS_MAX / 2);
      };
      addEventListener(type, heard, { capture: true });
    }
    this.look();
  }

  /**
   * Hears every message of every WebSocket that the page opens.
   * @param {Ears} ears
   */
  watchSockets(ears) {
    const looks = this;
    const property = /** @type {PropertyDescriptor} */ (
      Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage")
    );
    Object.defineProperty(WebSocket.prototype, "onmessage", {
      ...property,
      set(handle) {
        property.set?.call(this, (/** @type {MessageEvent} */ event) => {
          const cameMs = clockMs();
          handle.call(this, event);
          const handledMs = clockMs();
          const { last, dueUs } = ears.message(String(event.data));
          if (dueUs !== 0) looks.came({ last, cameMs, dueMs: dueUs / 1000, handledMs });
        });
      },
    });
  }

  /**
   * Looks at every stream of columns that the page reads, piece by piece as the page is given them. It
   * asks for a piece when it has handled the one before.
   * @param {Ears} ears
   */
  watchBodies(ears) {
    const ask = globalThis.fetch;
    globalThis.fetch = async (input, init) => {
      const response = await ask(input, init);
      const { ok, headers, body } = response;
      if (ok && body && headers.get("Content-Type") === ARROW_TYPE) this.watchBody(headers, body, ears);
      return response;
    };
  }

  /**
   * @param {Headers} headers
   * @param {ReadableStream} body
   * @param {Ears} ears
   */
  watchBody(headers, body, ears) {
    const [, offset] = headers.get("Thalweg-Position")?.split(".") ?? [];
    ears.begins(Number(offset), headers.get("Thalweg-Resume")?.startsWith("gap") ?? false);
    let cameMs = 0;
    const heads = new FrameHeads((frame) => {
      ears.frame(frame);
      const { last, dueUs } = frame;
      const look = { last, cameMs, dueMs: dueUs / 1000, handledMs: 0 };
      this.unhandled.push(look);
      this.came(look);
    });
    const readerOf = body.getReader;
    body.getReader = (/** @type {any[]} */ ...how) => {
      const reader = /** @type {any} */ (readerOf.apply(body, /** @type {any} */ (how)));
      const { read } = reader;
      reader.read = async (/** @type {any[]} */ ...into) => {
        const handledMs = clockMs();
        for (const look of this.unhandled) look.handledMs = handledMs;
        this.unhandled = [];
        const piece = await read.apply(reader, into);
        cameMs = clockMs();
        if (piece.value) heads.push(piece.value);
        return piece;
      };
      return reader;
    };
  }

  /** @param {LiveLooks["unpainted"][0]} look */
  came(look) {
    this.unpainted.push(look);
    if (this.unpainted.length > UNPAINTED_MAX) this.unpainted.splice(0, UNPAINTED_MAX / 2);
  }

  /** In every frame: which row is the newest that is shown, and when the frame is done. */
  look() {
    requestAnimationFrame(() => {
      const newest = [...document.querySelectorAll("tbody th")].at(-1)?.textContent;
      const shown = Number(newest || 0);
      // A task that is posted in a frame runs when it has been painted.
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        this.painted(shown);
        port1.close();
      };
      port2.postMessage(null);
      this.look();
    });
  }

  /** @param {number} shown */
  painted(shown) {
    const nowMs = clockMs();
    let done = 0;
    for (const { last, cameMs, dueMs, handledMs } of this.unpainted) {
      if (last > shown || handledMs === 0) break;
      done += 1;
      this.looks.push([nowMs, dueMs, cameMs, handledMs]);
    }
    this.unpainted.splice(0, done);
    if (this.looks.length > LOOKS_MAX) this.looks.splice(0, LOOKS_MAX / 2);
  }

  /** @param {number} fromMs */
  since(fromMs) {
    const isSince = (/** @type {number[]} */ [atMs = 0]) => atMs >= fromMs;
    return { looks: this.looks.filter(isSince), inputs: this.inputs.filter(isSince) };
  }
}
