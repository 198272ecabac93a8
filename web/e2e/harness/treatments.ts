/** Treatments of a response by the proxy: they simulate network faults. */

import { PassThrough, Transform as Stage, type Transform } from "node:stream";

export type Treatment =
  | { readonly by: "pass" }
  /** Answered by the proxy itself, and not by the server. */
  | { readonly by: "refuse"; readonly status: number }
  /** Never answered. */
  | { readonly by: "hang" }
  /** The connection is reset. */
  | { readonly by: "reset" }
  /** Only the head arrives. */
  | { readonly by: "mute" }
  /** Held back up to this number of bytes, or the end. */
  | { readonly by: "hold"; readonly bytes: number }
  /** Broken after this number of bytes. */
  | { readonly by: "cut"; readonly bytes: number }
  /** Delayed to this number of bytes per second. */
  | { readonly by: "throttle"; readonly bytesPerS: number };

export const PASS: Treatment = { by: "pass" };

export function way(treatment: Treatment): Transform {
  switch (treatment.by) {
    case "mute":
      return new Stage({ transform: (_, __, done) => done() });
    case "hold":
      return holding(treatment.bytes);
    case "cut":
      return cutting(treatment.bytes);
    case "throttle":
      return throttling(treatment.bytesPerS);
    default:
      return new PassThrough();
  }
}

function holding(bytes: number): Transform {
  let held: Buffer[] = [];
  let size = 0;
  return new Stage({
    transform(chunk: Buffer, _, done) {
      held.push(chunk);
      size += chunk.length;
      if (size < bytes) return done();
      const all = Buffer.concat(held);
      held = [];
      size = 0;
      done(null, all);
    },
    flush: (done) => done(null, Buffer.concat(held)),
  });
}

function cutting(bytes: number): Transform {
  let left = bytes;
  return new Stage({
    transform(chunk: Buffer, _, done) {
      this.push(chunk.subarray(0, left));
      left = Math.max(0, left - chunk.length);
      // Pushed data must be on its way first.
      if (!left) setImmediate(() => this.destroy(new Error("cut")));
      done();
    },
  });
}

const SLICE_MS = 20;

function throttling(bytesPerS: number): Transform {
  const size = Math.max(1, Math.floor((bytesPerS * SLICE_MS) / 1000));
  return new Stage({
    transform(chunk: Buffer, _, done) {
      let at = 0;
      const next = (): void => {
        this.push(chunk.subarray(at, at + size));
        at += size;
        if (at < chunk.length) setTimeout(next, SLICE_MS);
        else setTimeout(done, SLICE_MS);
      };
      next();
    },
  });
}
