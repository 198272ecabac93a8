/**
 * Lets others have their turn. What has come already is read without the event loop: where data never
 * ends, timers, input and drawing would wait for as long as it comes.
 */

/** Tables may be made and processed for so long in one go, ms: a part of a frame at 60 Hz. */
const TURN_MS = 5;

/** @internal */
export class Turns {
  #beganAt = performance.now();

  /** To be awaited, if it is time for others. */
  next(): Promise<void> | undefined {
    if (performance.now() - this.#beganAt < TURN_MS) return undefined;
    return task().then(() => {
      this.#beganAt = performance.now();
    });
  }
}

/** The next task of the event loop. A timer would be held back for 4 ms. */
function task(): Promise<void> {
  return new Promise((go) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      go();
    };
    port2.postMessage(null);
  });
}
