/** The body of a response, piece by piece. */

/** Bytes of the memory that pieces are read into: doubled when one fills it. */
const MEMORY_BYTES_MIN = 4 * 1024;
const MEMORY_BYTES_MAX = 256 * 1024;

/**
 * Reads bodies. Where the platform allows it (`ReadableStreamBYOBReader`), all pieces come into one
 * memory: new memory for each piece takes a page half of its time when a lot comes.
 *
 * @returns the next piece, which stays as it is until the next one is asked for; `null` at the end.
 */
export function pieces(body: ReadableStream<Uint8Array>): () => Promise<Uint8Array | null> {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    // It is no stream of bytes: an older browser's, or of a `fetch` that the page brings along.
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
