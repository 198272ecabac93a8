/** Bytes that patches save: the size received, compared with the size of whole documents. Pure. */

export class Savings {
  versions = 0;
  /** Bytes received. */
  received = 0;
  /** Bytes of the same versions as whole documents. */
  whole = 0;

  /** @param bytes - size of the message. @returns the size of the document, bytes. */
  add(document: unknown, bytes: number): number {
    const size = JSON.stringify(document)?.length ?? 0;
    this.versions += 1;
    this.received += bytes;
    // A message with a whole document is a few bytes larger than the document.
    this.whole += Math.max(size, bytes);
    return size;
  }

  /** The saved share, 0 to 1. */
  get share(): number {
    return this.whole ? 1 - this.received / this.whole : 0;
  }
}
