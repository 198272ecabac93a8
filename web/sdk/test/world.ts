/**
 * A server in memory, as docs/wire.md has it, and a network that can be broken: so that
 * what takes minutes takes none, and what happens by chance happens by seed.
 */

export type Way = "websocket" | "http-streaming" | "sse" | "long-polling";

/** What is retained of a topic. */
interface Topic {
  events: unknown[];
  /** Of each of them. */
  offsets: number[];
  /** Of the newest that is forgotten; 0 if none is. */
  trimmed: number;
}

/** Offsets that a publish to a sparse topic takes, however few events it has. */
const SPAN = 256;

/** Versions that a value topic has patches since. */
const PATCHES_MAX = 4;

/** What is under way to a subscription with a window, and not acked. */
interface Window {
  limit: number;
  frames: { offset: number; bytes: number }[];
}

/** Somebody who is told what is due. */
interface Listener {
  way: Way;
  cursors: Map<string, number>;
  windows: Map<string, Window>;
  /** Whether it takes patches. */
  isPatched?: boolean;
  say(json: string): void;
  cut(): void;
  end(code: number, reason: string, reconnect: boolean): void;
  /** Something has been swallowed: then nothing comes after it either. */
  isMute: boolean;
}

export class World {
  epoch = "e1";
  readonly topics = new Map<string, Topic>();
  readonly listeners = new Set<Listener>();
  /** Ways that are refused, or open and stay silent. */
  readonly blocked = new Set<Way>();
  readonly silent = new Set<Way>();
  /** Topics of which the newest event counts; each is an object. */
  readonly values = new Set<string>();
  /** Topics whose offsets have holes between publishes. */
  readonly sparse = new Set<string>();
  /** How many events of a log there are at most in an envelope. */
  most: () => number = () => Infinity;
  /** Whether an envelope of a log is lost, and nobody notices. */
  loses: () => boolean = () => false;
  /** What is done to patches on their way. */
  treat: (operations: object[], previous: number) => { operations: object[]; previous: number } = (
    operations,
    previous,
  ) => ({ operations, previous });
  /** Topics that a WebSocket may not subscribe to. */
  readonly refused = new Set<string>();
  /** Every request's method, URL and headers, in order; a WebSocket's as well. */
  readonly requests: { method: string; url: URL; headers: Record<string, string>; body: string }[] = [];
  /** Streamed bodies, and what waits in each to be read. */
  readonly bodies = new Set<{ unread(): number }>();
  /** Every command over a WebSocket. */
  readonly commands: Record<string, unknown>[] = [];
  /** How long the network takes to bring a message, ms. */
  delay: () => number = () => 0;
  /** Answers requests before anything else does, if it returns something. */
  interfere: (method: string, url: URL) => Response | null = () => null;
  readonly #keys = new Map<string, string>();

  publish(topic: string, ...events: unknown[]): object {
    const stream = this.#stream(topic);
    const head = newest(stream);
    const first = this.sparse.has(topic) ? (Math.floor(head / SPAN) + 1) * SPAN : head + 1;
    stream.events.push(...events);
    stream.offsets.push(...events.map((_, index) => first + index));
    for (const listener of [...this.listeners]) this.#deliver(listener, topic);
    return { topic, position: `${this.epoch}.${newest(stream)}`, first, count: events.length };
  }

  /** Ends a topic: nothing is left of it, and whoever has it is told. */
  end(topic: string, code: string, reason: string): void {
    const position = `${this.epoch}.${newest(this.#stream(topic))}`;
    this.topics.delete(topic);
    const said = JSON.stringify({ topic, position, end: { code, reason } });
    for (const listener of [...this.listeners]) {
      if (!listener.cursors.delete(topic)) continue;
      listener.say(said);
      if (listener.way !== "websocket" && !listener.cursors.size) listener.end(4500, "ended", false);
    }
  }

  /** Forgets all but the newest events of a topic. */
  trim(topic: string, keep: number): void {
    const stream = this.#stream(topic);
    const forgotten = Math.max(0, stream.events.length - keep);
    stream.events.splice(0, forgotten);
    stream.trimmed = stream.offsets.splice(0, forgotten).at(-1) ?? stream.trimmed;
  }

  /** Another incarnation: offsets begin anew. */
  restart(): void {
    this.epoch = `${this.epoch}1`;
    this.topics.clear();
    this.cut();
  }

  cut(): void {
    for (const listener of [...this.listeners]) listener.cut();
  }

  /** Ends every connection with a word. */
  close(code: number, reason: string, reconnect: boolean): void {
    for (const listener of [...this.listeners]) listener.end(code, reason, reconnect);
  }

  heartbeat(): void {
    for (const listener of this.listeners) listener.say('{"heartbeat":{}}');
  }

  readonly fetch = async (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : input);
    const method = init.method ?? "GET";
    const headers = init.headers as Record<string, string>;
    this.requests.push({ method, url, headers, body: String(init.body ?? "") });
    await Promise.resolve();
    init.signal?.throwIfAborted();
    const other = this.interfere(method, url);
    if (other) return other;
    if (method === "POST") return this.#post(url, headers, String(init.body));
    const way: Way = url.searchParams.has("wait") ? "long-polling" : "http-streaming";
    if (this.blocked.has(way)) return new Response("no", { status: 502 });
    return new Response(this.#body(way, url, init.signal as AbortSignal));
  };

  /** Brings things in order, each when its time has come. */
  #line(): (bring: () => void) => void {
    let last = 0;
    return (bring) => {
      last = Math.max(last, Date.now() + this.delay());
      if (last <= Date.now()) queueMicrotask(bring);
      else setTimeout(bring, last - Date.now());
    };
  }

  #post(url: URL, headers: Record<string, string>, body: string): Response {
    const json = (value: object, status = 200): Response => new Response(JSON.stringify(value), { status });
    if (url.pathname === "/v1/tickets") return json({ ticket: "t1", expires_in_s: 30 });
    if (url.pathname === "/v1/commands") {
      const command = JSON.parse(body) as Record<string, unknown>;
      this.commands.push(command);
      if (command["command"] === "echo") return json({ answer: { data: command["data"] } });
      return json({ answer: { topic: command["topic"], position: command["position"] } });
    }
    const topic = url.pathname.replace("/v1/topics/", "");
    const key = headers["Idempotency-Key"];
    const done = key && this.#keys.get(key);
    if (done) return new Response(done);
    const isLines = headers["Content-Type"] === "application/x-ndjson";
    const events = (isLines ? body.split("\n") : [body]).map((line) => JSON.parse(line) as unknown);
    const answer = this.publish(topic, ...events);
    if (key) this.#keys.set(key, JSON.stringify(answer));
    return json(answer);
  }

  #body(way: Way, url: URL, signal: AbortSignal): ReadableStream<Uint8Array> {
    let end = (): void => {};
    return new ReadableStream<Uint8Array>({
      start: (body) => {
        const encoder = new TextEncoder();
        let isOpen = true;
        const line = this.#line();
        const close = (how: () => void): void => {
          if (!isOpen) return;
          isOpen = false;
          this.listeners.delete(listener);
          how();
        };
        const leave = (): void => {
          this.listeners.delete(listener);
          line(() => close(() => body.close()));
        };
        const wait = url.searchParams.get("wait");
        const listener: Listener = {
          way,
          cursors: new Map(),
          windows: new Map(),
          say: (json) => {
            listener.isMute ||= this.silent.has(way);
            if (!isOpen || listener.isMute) return;
            line(() => {
              if (isOpen) body.enqueue(encoder.encode(`${json}\n`));
            });
            // A poll ends when something was said that is no confirmation.
            if (way === "long-polling" && !json.includes('"events":[]')) leave();
          },
          cut: () => close(() => body.error(new TypeError("network"))),
          end: (code, reason, reconnect) => {
            listener.say(JSON.stringify({ close: { code, reason, reconnect } }));
            leave();
          },
          isMute: false,
        };
        end = () => close(() => {});
        signal.onabort = () => close(() => body.error(signal.reason));
        this.listeners.add(listener);
        this.bodies.add({ unread: () => 1 - (body.desiredSize ?? 1) });
        this.#subscribe(listener, url);
        if (wait === "0s") leave();
        else if (wait) setTimeout(leave, Number.parseInt(wait, 10) * 1000);
      },
      cancel: () => end(),
    });
  }

  #subscribe(listener: Listener, url: URL): void {
    const inPath = url.pathname.replace(/^\/v1\/topics\/?/, "");
    const topics = inPath ? [inPath] : url.searchParams.getAll("topic");
    // Over SSE with several topics documents come whole.
    listener.isPatched = url.searchParams.get("deltas") === "patch" && !(listener.way === "sse" && topics.length > 1);
    const cursors = url.searchParams.getAll("cursor");
    for (const [index, topic] of topics.entries()) {
      this.#begin(listener, topic, cursors[index] ?? cursors[0] ?? "latest");
    }
  }

  #begin(listener: Listener, topic: string, cursor: string): void {
    const stream = this.#stream(topic);
    const [epoch, offset] = cursor.split(".");
    let at = cursor === "latest" ? newest(stream) : cursor === "earliest" ? stream.trimmed : Number(offset);
    let gap: object | null = null;
    if (this.values.has(topic)) {
      at = epoch === this.epoch ? at : 0;
      if (offset === undefined) at = 0;
      const position = `${this.epoch}.${at}`;
      listener.cursors.set(topic, at);
      listener.say(JSON.stringify({ topic, position, first: at + 1, previous: at, events: [] }));
      this.#deliver(listener, topic);
      return;
    }
    if (offset !== undefined && epoch !== this.epoch) {
      at = stream.trimmed;
      gap = { missed: null, reason: "epoch" };
    } else if (at < stream.trimmed) {
      gap = this.#missed(topic, at, "trimmed");
      at = stream.trimmed;
    }
    const position = `${this.epoch}.${at}`;
    const said = gap ? { topic, position, gap } : { topic, position, first: at + 1, events: [] };
    listener.cursors.set(topic, at);
    listener.say(JSON.stringify(said));
    this.#deliver(listener, topic);
  }

  #deliver(listener: Listener, topic: string): void {
    const at = listener.cursors.get(topic);
    const stream = this.#stream(topic);
    const head = newest(stream);
    if (at === undefined || at >= head || !this.listeners.has(listener)) return;
    const window = listener.windows.get(topic);
    const isFull = window && window.frames.reduce((sum, { bytes }) => sum + bytes, 0) >= window.limit;
    if (isFull) return;
    if (this.values.has(topic)) {
      const json = this.#version(listener, topic, at, head);
      listener.cursors.set(topic, head);
      window?.frames.push({ offset: head, bytes: json.length });
      listener.say(json);
      return;
    }
    if (at < stream.trimmed) {
      const gap = this.#missed(topic, at, "slow");
      listener.cursors.set(topic, stream.trimmed);
      listener.say(JSON.stringify({ topic, position: `${this.epoch}.${stream.trimmed}`, gap }));
    } else {
      const { json, last } = this.#envelope(topic, at);
      listener.cursors.set(topic, last);
      if (!this.loses()) {
        window?.frames.push({ offset: last, bytes: json.length });
        listener.say(json);
      }
    }
    this.#deliver(listener, topic);
  }

  /** What has been forgotten after this offset. */
  #missed(topic: string, at: number, reason: string): object {
    return { missed: this.sparse.has(topic) ? null : this.#stream(topic).trimmed - at, reason };
  }

  /** The next events of a log after this offset, and the offset of the last of them. */
  #envelope(topic: string, at: number): { json: string; last: number } {
    const stream = this.#stream(topic);
    const from = stream.offsets.findIndex((offset) => offset > at);
    const to = from + this.most();
    const offsets = stream.offsets.slice(from, to);
    const [first = 0, last = 0] = [offsets[0], offsets.at(-1)];
    const after = stream.offsets[from - 1] ?? stream.trimmed;
    const envelope = {
      topic,
      position: `${this.epoch}.${last}`,
      first,
      ...(after !== first - 1 && { after }),
      ...(last - first >= offsets.length && { offsets }),
      events: stream.events.slice(from, to),
    };
    return { json: JSON.stringify(envelope), last };
  }

  /** The newest version, for who has that one. */
  #version(listener: Listener, topic: string, at: number, head: number): string {
    const { events, offsets } = this.#stream(topic);
    const envelope = { topic, position: `${this.epoch}.${head}`, first: head, previous: at };
    const [before, after] = [at, head].map((offset) => events[offsets.indexOf(offset)] as Record<string, unknown>);
    if (!listener.isPatched || !before || head - at > PATCHES_MAX) {
      return JSON.stringify({ ...envelope, events: [after] });
    }
    const { operations, previous } = this.treat(patch(before, after as Record<string, unknown>), at);
    return JSON.stringify({ ...envelope, previous, patch: operations });
  }

  #ack(listener: Listener, topic: string, position: string): void {
    const window = listener.windows.get(topic);
    if (!window) return;
    const offset = Number(position.split(".")[1]);
    window.frames = window.frames.filter((frame) => frame.offset > offset);
    this.#deliver(listener, topic);
  }

  #stream(topic: string): Topic {
    const stream = this.topics.get(topic) ?? { events: [], offsets: [], trimmed: 0 };
    this.topics.set(topic, stream);
    return stream;
  }

  /** Stands for the browser's, as far as it is used. */
  readonly WebSocket = ((world: World) =>
    class {
      onopen: (() => void) | null = null;
      onmessage: ((event: { data: string }) => void) | null = null;
      onerror: (() => void) | null = null;
      onclose: ((event: { code: number; reason: string }) => void) | null = null;
      #listener: Listener;
      #isOpen = false;
      #isClosed = false;
      #bring = world.#line();

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
        // As browsers have it: of a connection that broke, both.
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
        if (command["command"] === "publish") {
          const events = command["events"] as unknown as unknown[];
          answer(world.publish(topic, ...events));
        }
        const refuse = (code: string): void =>
          this.#listener.say(JSON.stringify({ error: { id, code, message: `${topic}: ${code}` } }));
        if (command["command"] === "unsubscribe") {
          if (this.#listener.cursors.delete(topic)) answer({ topic });
          else refuse("not_subscribed");
        }
        if (command["command"] === "ack") world.#ack(this.#listener, topic, command["position"] ?? "");
        if (command["command"] === "subscribe") {
          const problem = world.refused.has(topic) ? "too_many_topics" : "already_subscribed";
          if (world.refused.has(topic) || this.#listener.cursors.has(topic)) {
            refuse(problem);
            return;
          }
          answer({ topic });
          const { window } = command;
          if (window) this.#listener.windows.set(topic, { limit: Number(window), frames: [] });
          world.#begin(this.#listener, topic, command["cursor"] ?? "latest");
        }
      }

      close(): void {
        this.#isClosed = true;
        world.listeners.delete(this.#listener);
      }
    })(this);

  /** The same of Server-Sent Events: what a browser makes of the stream of this server. */
  readonly EventSource = ((world: World) =>
    class {
      onmessage: ((event: { data: string }) => void) | null = null;
      onerror: (() => void) | null = null;
      #kinds = new Map<string, (event: { data: string }) => void>();
      #bring = world.#line();
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
          world.#subscribe(this.#listener, new URL(url));
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
    })(this);
}

/** The offset of a topic's newest event; 0 if there was none. */
function newest({ offsets, trimmed }: Topic): number {
  return offsets.at(-1) ?? trimmed;
}

/** What makes one object of another, member by member; an array grows at its front. */
function patch(before: Record<string, unknown>, after: Record<string, unknown>): object[] {
  const replace = (name: string): object[] => {
    const [was, is] = [before[name], after[name]];
    if (JSON.stringify(was) === JSON.stringify(is)) return [];
    if (Array.isArray(was) && Array.isArray(is) && was.length) {
      const added = is.slice(0, is.length - was.length).reverse();
      const isGrown = JSON.stringify(is.slice(added.length)) === JSON.stringify(was);
      if (isGrown) return added.map((value: unknown) => ({ op: "add", path: `/${name}/0`, value }));
    }
    return [{ op: name in before ? "replace" : "add", path: `/${name}`, value: is }];
  };
  return [
    ...Object.keys(before).flatMap((name) => (name in after ? [] : [{ op: "remove", path: `/${name}` }])),
    ...Object.keys(after).flatMap(replace),
  ];
}
