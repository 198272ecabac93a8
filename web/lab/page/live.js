/**
 * Observes the live page: when a message arrives over a WebSocket or as an Arrow frame, when the page has handled it,
 * when its newest row is painted, and how long input waits.
 *
 * @typedef {object} Observers - callbacks for received data.
 * @property {(message: string) => { last: number, dueUs: number }} message - a WebSocket message.
 * @property {(offset: number, isGap: boolean) => void} begins - a stream of columns begins after an offset.
 * @property {(frame: FrameHead) => void} frame - a frame of such a stream.
 */

/** Maximum number of unpainted messages; a page that is farther behind skips some. */
const UNPAINTED_MAX = 4096;
/** Maximum number of latencies kept: those of the newest painted messages. */
const LOOKS_MAX = 20_000;
const INPUTS_MAX = 10_000;
const ARROW_TYPE = "application/vnd.apache.arrow.stream";

class LiveLooks {
  constructor() {
    /** `handledMs` is 0 until the message is handled. @type {{ last: number, cameMs: number, dueMs: number, handledMs: number }[]} */
    this.unpainted = [];
    /** Unhandled parts of a body. @type {LiveLooks["unpainted"]} */
    this.unhandled = [];
    /** Time of an input's handler, and its delay after the input, ms. @type {number[][]} */
    this.inputs = [];
    /** Time of painting, and three delays: due to received, received to handled, handled to painted, ms. @type {number[][]} */
    this.looks = [];
  }

  /** @param {Observers} observers */
  watch(observers) {
    this.watchSockets(observers);
    this.watchBodies(observers);
    for (const type of ["mousedown", "mouseup"]) {
      const onInput = (/** @type {Event} */ { timeStamp }) => {
        this.inputs.push([clockMs(), performance.now() - timeStamp]);
        if (this.inputs.length > INPUTS_MAX) this.inputs.splice(0, INPUTS_MAX / 2);
      };
      addEventListener(type, onInput, { capture: true });
    }
    this.look();
  }

  /** Observes every message of every WebSocket that the page opens. @param {Observers} observers */
  watchSockets(observers) {
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
          const { last, dueUs } = observers.message(String(event.data));
          if (dueUs !== 0) looks.add({ last, cameMs, dueMs: dueUs / 1000, handledMs });
        });
      },
    });
  }

  /**
   * Observes every stream of columns that the page reads, piece by piece. The page requests a piece when it has handled
   * the previous one. @param {Observers} observers
   */
  watchBodies(observers) {
    const ask = globalThis.fetch;
    globalThis.fetch = async (input, init) => {
      const response = await ask(input, init);
      const { ok, headers, body } = response;
      if (ok && body && headers.get("Content-Type") === ARROW_TYPE) this.watchBody(headers, body, observers);
      return response;
    };
  }

  /** @param {Headers} headers @param {ReadableStream} body @param {Observers} observers */
  watchBody(headers, body, observers) {
    const [, offset] = headers.get("Thalweg-Position")?.split(".") ?? [];
    observers.begins(Number(offset), headers.get("Thalweg-Resume")?.startsWith("gap") ?? false);
    let cameMs = 0;
    const heads = new FrameHeads((frame) => {
      observers.frame(frame);
      const { last, dueUs } = frame;
      const look = { last, cameMs, dueMs: dueUs / 1000, handledMs: 0 };
      this.unhandled.push(look);
      this.add(look);
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
  add(look) {
    this.unpainted.push(look);
    if (this.unpainted.length > UNPAINTED_MAX) this.unpainted.splice(0, UNPAINTED_MAX / 2);
  }

  /** Records, in every frame, the newest visible row and the time when it is painted. */
  look() {
    requestAnimationFrame(() => {
      const newest = [...document.querySelectorAll("tbody th")].at(-1)?.textContent;
      const shown = Number(newest || 0);
      // A task posted in a frame runs after painting.
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
