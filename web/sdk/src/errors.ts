/** What goes wrong. */

/**
 * What the server refused, with its code (docs/wire.md), or one of these: `closed` (the
 * session is), `close_1008` and its like (the server ended it with this code, for good),
 * `unanswered` (the connection broke before the answer came: whether it was done is not
 * known), `unreachable`, `no_transport`; in a Worker `no_worker` (it does not load) and
 * `failed` (what the page gave did).
 */
export class ThalwegError extends Error {
  /** `ThalwegError`. */
  override readonly name = "ThalwegError";
  /** What it is, for programs; the message is for people. */
  declare readonly code: string;
  /** Over HTTP; `null` otherwise. */
  declare readonly status: number | null;

  /** Made by sessions. */
  constructor(code: string, message: string, status: number | null = null) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** Whether another attempt may fare better than one with this status. @internal */
export function isTransient(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status);
}

/**
 * Runs what the page gave. An error of it is the page's own: said where pages look, and no
 * reason to stop. @internal
 */
export function safely<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
