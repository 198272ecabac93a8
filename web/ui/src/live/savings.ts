/** What patches save: bytes that came, beside those that whole documents would have been. Pure. */

export class Savings {
  versions = 0;
  /** Received, bytes. */
  received = 0;
  /** What the same versions would have been, each whole, bytes. */
  whole = 0;

  /** @param bytes - of the message that it came in. @returns the size of the document, bytes. */
  add(document: unknown, bytes: number): number {
    const size = JSON.stringify(document)?.length ?? 0;
    this.versions += 1;
    this.received += bytes;
    // A message of its own has some bytes around the document.
    this.whole += Math.max(size, bytes);
    return size;
  }

  /** The part that did not come, from 0 to 1. */
  get share(): number {
    return this.whole ? 1 - this.received / this.whole : 0;
  }
}
