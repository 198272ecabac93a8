/** Reads a response body in pieces. With many pieces, the reader regularly returns to the event loop (`Turns`). */

/** Initial size of the memory for pieces, bytes. It doubles when a piece fills it. */
const MEMORY_BYTES_MIN = 4 * 1024;
const MEMORY_BYTES_MAX = 256 * 1024;

/** Time that reading and processing may take in one task, ms: a part of a frame at 60 Hz. */
const TURN_MS = 5;

/**
 * Reads a body. If the platform supports it (`ReadableStreamBYOBReader`), all pieces use the same memory: allocating
 * memory for each piece takes half of a page's time at high volume.
 * @returns the next piece, valid until the next call; `null` at the end. @internal
 */
export function pieces(body: ReadableStream<Uint8Array>): () => Promise<Uint8Array | null> {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    // Older browsers, and some `fetch` replacements, provide no byte stream here.
    const plain = body.getReader();
    return async () => (await plain.read()).value ?? null;
  }
  let memory = new ArrayBuffer(MEMORY_BYTES_MIN);
  return async () => {
    const { done, value } = await reader.read(new Uint8Array(memory));
    if (done) return null;
    const { buffer, length } = value;
    const isFull = length === buffer.byteLength && length < MEMORY_BYTES_MAX;
    memory = isFull ? new ArrayBuffer(2 * length) : buffer;
    return value;
  };
}

/**
 * Lets timers, input and rendering run between pieces. Reading data that has already arrived does not return to the
 * event loop, so an endless stream would block them. @internal
 */
export class Turns {
  #beganAt = performance.now();

  /** Returns a promise to await if other tasks are due. */
  next(): Promise<void> | undefined {
    if (performance.now() - this.#beganAt < TURN_MS) return undefined;
    return task().then(() => {
      this.#beganAt = performance.now();
    });
  }
}

/** Waits for the next task of the event loop. A timer would add 4 ms. */
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
