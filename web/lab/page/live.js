/**
 * Looks on at the live page: when a message comes, when the page has handled it, and when its
 * newest row has been painted. The page has its own script, and knows nothing of it.
 */

/** What has come and is not painted yet is kept so far; a page that is farther behind skips some. */
const UNPAINTED_MAX = 4096;
/** Latencies of a span are kept, one for each painted message; the newest. */
const LOOKS_MAX = 20_000;

class LiveLooks {
  constructor() {
    /** @type {{ last: number, cameMs: number, dueMs: number, handledMs: number }[]} */
    this.unpainted = [];
    /** When it was painted, and by how much: due to came, came to handled, handled to painted, ms. @type {number[][]} */
    this.looks = [];
  }

  /**
   * Hears every message of every WebSocket that the page opens.
   * @param {(message: string) => { last: number, dueUs: number }} read
   * @param {() => void} lost - the page asks for columns: what is in them is not looked at.
   */
  watch(read, lost) {
    const ask = globalThis.fetch;
    globalThis.fetch = (input, init) => {
      if (new Headers(init?.headers).get("Accept")?.includes("arrow")) lost();
      return ask(input, init);
    };
    const looks = this.unpainted;
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
          const { last, dueUs } = read(String(event.data));
          if (dueUs === 0) return;
          looks.push({ last, cameMs, dueMs: dueUs / 1000, handledMs });
          if (looks.length > UNPAINTED_MAX) looks.splice(0, UNPAINTED_MAX / 2);
        });
      },
    });
    this.look();
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
    while (this.unpainted[0] && this.unpainted[0].last <= shown) {
      const { cameMs, dueMs, handledMs } = /** @type {(typeof this.unpainted)[0]} */ (this.unpainted.shift());
      this.looks.push([nowMs, dueMs, cameMs, handledMs]);
    }
    if (this.looks.length > LOOKS_MAX) this.looks.splice(0, LOOKS_MAX / 2);
  }

  /** @param {number} fromMs */
  since(fromMs) {
    return this.looks.filter(([paintedMs]) => /** @type {number} */ (paintedMs) >= fromMs);
  }
}
