/**
 * What has been received and not yet processed, in bytes: it bounds what a slow page
 * holds.
 */

/** A transport that can be held back is, from here on. */
const FULL_BYTES = 4 * 1024 * 1024;
/** A transport that cannot is given up here, until there is room. */
const OVER_BYTES = 16 * 1024 * 1024;

/** @internal */
export interface Backlog {
  add(bytes: number): void;
  done(bytes: number): void;
  isOver(): boolean;
  /** `null`, or what to wait for. */
  drained(): Promise<void> | null;
}

/** @internal */
export function backlog(): Backlog {
  let held = 0;
  const waiting: (() => void)[] = [];
  return {
    add(bytes) {
      held += bytes;
    },
    done(bytes) {
      held -= bytes;
      if (held < FULL_BYTES / 2) for (const go of waiting.splice(0)) go();
    },
    isOver: () => held > OVER_BYTES,
    drained: () => (held < FULL_BYTES ? null : new Promise((go) => waiting.push(go))),
  };
}
