/** Mocks of a browser's connections to the server in memory. */

export type Way = "websocket" | "http-streaming" | "sse" | "long-polling";

/** Bytes in flight to a subscription with a window, not yet acked. */
export interface Window {
  limit: number;
  frames: { offset: number; bytes: number }[];
}

export interface Listener {
  way: Way;
  cursors: Map<string, number>;
  windows: Map<string, Window>;
  isPatched?: boolean;
  say(json: string): void;
  cut(): void;
  end(code: number, reason: string, reconnect: boolean): void;
  /** Data was swallowed: no further data follows. */
  isMute: boolean;
}

/** Returns whether a subscriber gets the events of a key. */
export type KeyFilter = (key: string) => boolean;

const ALL: KeyFilter = () => true;

/** Returns the filter with these keys and this prefix; without both, it is the same one for all subscribers. */
export function keyFilter(keys: readonly string[] = [], prefix?: string | null): KeyFilter {
  if (!keys.length && !prefix) return ALL;
  return (key) => keys.includes(key) || Boolean(prefix && key.startsWith(prefix));
}

export interface Network {
  readonly blocked: Set<Way>;
  readonly silent: Set<Way>;
  readonly listeners: Set<Listener>;
  readonly refused: Set<string>;
  readonly requests: { method: string; url: URL; headers: Record<string, string>; body: string }[];
  readonly commands: Record<string, unknown>[];
  readonly lasts: number | undefined;
  publish(topic: string, ...events: unknown[]): object;
  put(topic: string, key: string, event: unknown): object;
  line(): (bring: () => void) => void;
  /** Starts the subscriptions of a request. */
  subscribe(listener: Listener, url: URL): void;
  begin(listener: Listener, topic: string, cursor: string, isWanted: KeyFilter): void;
  ack(listener: Listener, topic: string, position: string): void;
}

export function webSocketOf(world: Network) {
  return class {
    onopen: (() => void) | null = null;
    onmessage: ((event: { data: string }) => void) | null = null;
    onerror: (() => void) | null = null;
    onclose: ((event: { code: number; reason: string }) => void) | null = null;
    #listener: Listener;
    #isOpen = false;
    #isClosed = false;
    #bring = world.line();

    constructor(url: URL) {
      world.requests.push({ method: "WS", url: new URL(url), headers: {}, body: "" });
      this.#listener = {
        way: "websocket",
        cursors: new Map(),
        windows: new Map(),
        isPatched: new URL(url).searchParams.get("deltas") === "patch",
        isMute: false,
        say: (data) => {
          this.#listener.isMute ||= world.silent.has("websocket");
          this.#bring(() => {
            if (!this.#listener.isMute) this.onmessage?.({ data });
          });
        },
        cut: () => this.end(1006, ""),
        end: (code, reason) => this.end(code, reason),
      };
      queueMicrotask(() => {
        if (this.#isClosed) return;
        if (world.blocked.has("websocket")) {
          this.end(1006, "");
          return;
        }
        this.#isOpen = true;
        world.listeners.add(this.#listener);
        this.onopen?.();
      });
    }

    end(code: number, reason: string): void {
      world.listeners.delete(this.#listener);
      // Browsers report both events for a broken connection.
      if (code === 1006) this.onerror?.();
      this.onclose?.({ code, reason });
    }

    send(text: string): void {
      if (!this.#isOpen) throw new Error("InvalidStateError: still connecting");
      const command = JSON.parse(text) as Record<string, string>;
      const { id, topic = "" } = command;
      world.commands.push(command);
      if (!world.listeners.has(this.#listener)) return;
      const answer = (more: object): void =>
        this.#listener.say(JSON.stringify({ answer: { ...(id && { id }), ...more } }));
      if (command["command"] === "echo") answer({ data: command["data"] });
      if (command["command"] === "refresh") answer({ expires_in_s: world.lasts });
      if (command["command"] === "publish") {
        const events = command["events"] as unknown as unknown[];
        const { key } = command;
        answer(key === undefined ? world.publish(topic, ...events) : world.put(topic, key, events[0]));
      }
      const refuse = (code: string): void =>
        this.#listener.say(JSON.stringify({ error: { id, code, message: `${topic}: ${code}` } }));
      if (command["command"] === "unsubscribe") {
        if (this.#listener.cursors.delete(topic)) answer({ topic });
        else refuse("not_subscribed");
      }
      if (command["command"] === "ack") world.ack(this.#listener, topic, command["position"] ?? "");
      if (command["command"] === "subscribe") {
        const problem = world.refused.has(topic) ? "too_many_topics" : "already_subscribed";
        if (world.refused.has(topic) || this.#listener.cursors.has(topic)) {
          refuse(problem);
          return;
        }
        answer({ topic });
        const { window, prefix } = command;
        if (window) this.#listener.windows.set(topic, { limit: Number(window), frames: [] });
        const isWanted = keyFilter(command["keys"] as unknown as string[] | undefined, prefix);
        world.begin(this.#listener, topic, command["cursor"] ?? "latest", isWanted);
      }
    }

    close(): void {
      this.#isClosed = true;
      world.listeners.delete(this.#listener);
    }
  };
}

export function eventSourceOf(world: Network) {
  return class {
    onmessage: ((event: { data: string }) => void) | null = null;
    onerror: (() => void) | null = null;
    #kinds = new Map<string, (event: { data: string }) => void>();
    #bring = world.line();
    #listener: Listener;
    #isClosed = false;

    constructor(url: URL) {
      world.requests.push({ method: "SSE", url: new URL(url), headers: {}, body: "" });
      this.#listener = {
        way: "sse",
        cursors: new Map(),
        windows: new Map(),
        isMute: false,
        say: (data) => {
          this.#listener.isMute ||= world.silent.has("sse");
          const kind = ["gap", "end", "heartbeat", "close"].find((it) => data.includes(`"${it}":{`));
          this.#bring(() => {
            if (this.#isClosed || this.#listener.isMute) return;
            if (kind) this.#kinds.get(kind)?.({ data });
            else this.onmessage?.({ data });
          });
        },
        cut: () => this.#fail(),
        end: (code, reason, reconnect) => {
          this.#listener.say(JSON.stringify({ close: { code, reason, reconnect } }));
          this.#bring(() => this.#fail());
        },
      };
      queueMicrotask(() => {
        if (this.#isClosed) return;
        if (world.blocked.has("sse")) {
          this.#fail();
          return;
        }
        world.listeners.add(this.#listener);
        world.subscribe(this.#listener, new URL(url));
      });
    }

    addEventListener(kind: string, hear: (event: { data: string }) => void): void {
      this.#kinds.set(kind, hear);
    }

    #fail(): void {
      world.listeners.delete(this.#listener);
      if (!this.#isClosed) this.onerror?.();
    }

    close(): void {
      this.#isClosed = true;
      world.listeners.delete(this.#listener);
    }
  };
}
