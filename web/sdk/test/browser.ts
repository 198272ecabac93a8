/** Stand-ins for `BroadcastChannel` and Web Locks, shared by tabs and their Workers, which may die at any time. */

/** A tab, or a Worker of it. */
export class Context {
  static current = new Context();
  static random: () => number = () => 0;
  readonly channels = new Set<Channel>();
  readonly locks = new Set<Lock>();
  worker: Context | null = null;
  isDead = false;
  end = (): void => {};

  kill(): void {
    this.isDead = true;
    for (const channel of this.channels) channel.close();
    for (const lock of this.locks) lock.end();
    // A Worker may live on for a moment after the locks of its tab are released.
    const { worker } = this;
    if (worker) setTimeout(() => worker.kill(), Math.floor(Context.random() * 8));
    this.end();
  }

  run<T>(code: () => T): T {
    const before = Context.current;
    Context.current = this;
    try {
      return code();
    } finally {
      Context.current = before;
    }
  }
}

const channels = new Set<Channel>();
const queues = new Map<string, Lock[]>();

/** A `BroadcastChannel` with delays. Messages between two contexts stay in order. */
export class Channel {
  onmessage: ((event: { data: unknown }) => void) | null = null;
  readonly name: string;
  readonly #context = Context.current;
  #last = 0;

  constructor(name: string) {
    this.name = name;
    channels.add(this);
    this.#context.channels.add(this);
  }

  postMessage(data: unknown): void {
    if (this.#context.isDead) return;
    if (!channels.has(this)) throw new Error("the channel is closed");
    for (const other of channels) {
      if (other === this || other.name !== this.name) continue;
      const copy = structuredClone(data);
      other.#last = Math.max(other.#last, Date.now() + Math.floor(Context.random() * 4));
      setTimeout(() => {
        if (channels.has(other)) other.#context.run(() => other.onmessage?.({ data: copy }));
      }, other.#last - Date.now());
    }
  }

  close(): void {
    channels.delete(this);
  }

  /** Returns the number of open channels of a context. */
  static open({ channels: its }: Context): number {
    return [...its].filter((channel) => channels.has(channel)).length;
  }
}

interface Lock {
  start(): void;
  end(): void;
}

/** Web Locks, all exclusive. */
export const locks = {
  request(name: string, ...given: unknown[]): Promise<unknown> {
    const run = given.at(-1) as () => unknown;
    const { signal } = (given.length > 1 ? given[0] : {}) as { signal?: AbortSignal };
    const context = Context.current;
    const queue = queues.get(name) ?? [];
    queues.set(name, queue);
    return new Promise((resolve, reject) => {
      const lock: Lock = {
        start: () =>
          setTimeout(async () => {
            if (queue[0] !== lock) return;
            try {
              resolve(await context.run(run));
            } catch (error) {
              reject(error);
            }
            lock.end();
          }),
        end() {
          const at = queue.indexOf(lock);
          if (at >= 0) queue.splice(at, 1);
          if (at === 0) queue[0]?.start();
        },
      };
      context.locks.add(lock);
      signal?.addEventListener("abort", () => {
        if (queue[0] === lock || !queue.includes(lock)) return;
        lock.end();
        reject(signal.reason);
      });
      queue.push(lock);
      if (queue[0] === lock) lock.start();
    });
  },
};
