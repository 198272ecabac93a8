/** A server in memory (docs/reference/messages.md) and a network that can fail, with simulated time and a seed. */

import {
  eventSourceOf,
  type KeyFilter,
  keyFilter,
  type Listener,
  type Network,
  type Way,
  webSocketOf,
} from "./world-sockets.js";

export type { Way };

interface Topic {
  events: unknown[];
  offsets: number[];
  /** The newest deleted offset; 0 if there is none. */
  trimmed: number;
  /** On a keyed topic: the key of each event. */
  keys: string[];
  /** On a keyed topic: removals before this offset are forgotten. */
  removedFrom: number;
  /** On a keyed topic: pages that were made earlier. */
  pages: KeyedPage[];
}

/** The newest events of some keys after the offset `at`, as of the head `until`. */
interface KeyedPage {
  at: number;
  last: number;
  until: number;
  /** Whether events that newer ones replaced are left out. */
  isPage: boolean;
  isWanted: KeyFilter;
  json: string;
}

/** Number of events behind the head at which a keyed topic is read in pages. */
const TAIL = 6;

interface Envelope {
  topic: string;
  events: unknown[];
  until: number;
}

/** Offsets that a publish to a sparse topic uses, for any number of events. */
const SPAN = 256;

/** Number of versions of a value topic for which the server has patches. */
const PATCHES_MAX = 4;

export class World implements Network {
  epoch = "e1";
  readonly topics = new Map<string, Topic>();
  readonly listeners = new Set<Listener>();
  /** Transports that are rejected, or open and stay silent. */
  readonly blocked = new Set<Way>();
  readonly silent = new Set<Way>();
  /** Value topics; each event is an object. */
  readonly values = new Set<string>();
  /** Keyed topics. An event is removed by `null`. */
  readonly keyed = new Set<string>();
  /** The delay before the next page or the next part of the tail of a keyed topic, ms. */
  pauses: () => number = () => 0;
  /** Returns whether a page that was made earlier is sent. */
  repeats: () => boolean = () => false;
  /** Chains of pages that began with no keys: the head at which their keys were live. */
  readonly #chains = new WeakMap<Listener, Map<string, number>>();
  readonly #filters = new WeakMap<Listener, Map<string, KeyFilter>>();
  /** Topics with holes between publishes. */
  readonly sparse = new Set<string>();
  /** Returns the largest number of events in an envelope of a log. */
  most: () => number = () => Infinity;
  /** Returns whether an envelope of a log is lost without notice. */
  loses: () => boolean = () => false;
  /** Modifies patches in flight. */
  treat: (operations: object[], previous: number) => { operations: object[]; previous: number } = (
    operations,
    previous,
  ) => ({ operations, previous });
  /** Topics that a WebSocket must not subscribe to. */
  readonly refused = new Set<string>();
  /** Method, URL and headers of every request, in order, including WebSockets. */
  readonly requests: { method: string; url: URL; headers: Record<string, string>; body: string }[] = [];
  readonly bodies = new Set<{ unread(): number }>();
  /** Lifetime of renewed tokens, s; `undefined`: no expiry. */
  lasts: number | undefined;
  readonly commands: Record<string, unknown>[] = [];
  /** Delay of the network, ms. */
  delay: () => number = () => 0;
  /** Answers requests first, if it returns a response. */
  interfere: (method: string, url: URL) => Response | null = () => null;
  readonly #keys = new Map<string, string>();
  readonly WebSocket = webSocketOf(this);
  readonly EventSource = eventSourceOf(this);

  /** Publishes an event of a key. */
  put(topic: string, key: string, event: unknown): object {
    this.#stream(topic).keys.push(key);
    return this.publish(topic, event);
  }

  /** Forgets all removals of a keyed topic. */
  purge(topic: string): void {
    const stream = this.#stream(topic);
    stream.removedFrom = newest(stream) + 1;
  }

  publish(topic: string, ...events: unknown[]): object {
    const stream = this.#stream(topic);
    const head = newest(stream);
    const first = this.sparse.has(topic) ? (Math.floor(head / SPAN) + 1) * SPAN : head + 1;
    stream.events.push(...events);
    stream.offsets.push(...events.map((_, index) => first + index));
    for (const listener of [...this.listeners]) this.#deliver(listener, topic);
    return { topic, position: `${this.epoch}.${newest(stream)}`, first, count: events.length };
  }

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

  trim(topic: string, keep: number): void {
    const stream = this.#stream(topic);
    const forgotten = Math.max(0, stream.events.length - keep);
    stream.events.splice(0, forgotten);
    stream.trimmed = stream.offsets.splice(0, forgotten).at(-1) ?? stream.trimmed;
  }

  restart(): void {
    this.epoch = `${this.epoch}1`;
    this.topics.clear();
    this.cut();
  }

  cut(): void {
    for (const listener of [...this.listeners]) listener.cut();
  }

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

  /** Delivers items in order, each at its time. */
  line(): (bring: () => void) => void {
    let last = 0;
    let delayed = 0;
    return (bring) => {
      last = Math.max(last, Date.now() + this.delay());
      if (last <= Date.now() && !delayed) {
        queueMicrotask(bring);
        return;
      }
      delayed++;
      setTimeout(() => {
        delayed--;
        bring();
      }, last - Date.now());
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
    const named = url.searchParams.get("key");
    const isLines = headers["Content-Type"] === "application/x-ndjson";
    const events = (isLines ? body.split("\n") : [body]).map((line) => JSON.parse(line) as unknown);
    const answer = named === null ? this.publish(topic, ...events) : this.put(topic, named, events[0]);
    if (key) this.#keys.set(key, JSON.stringify(answer));
    return json(answer);
  }

  #body(way: Way, url: URL, signal: AbortSignal): ReadableStream<Uint8Array> {
    let end = (): void => {};
    return new ReadableStream<Uint8Array>({
      start: (body) => {
        const encoder = new TextEncoder();
        let isOpen = true;
        const line = this.line();
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
            // A poll ends with the first message other than a confirmation, on a keyed topic with the last page: the
            // next poll does not know that removals before these pages are not missing.
            const { topic, events, until } = JSON.parse(json) as Partial<Envelope>;
            const isPart = events ? !events.length || until : this.keyed.has(topic as string);
            if (way === "long-polling" && !isPart) leave();
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
        this.subscribe(listener, url);
        if (wait === "0s") leave();
        else if (wait) setTimeout(leave, Number.parseInt(wait, 10) * 1000);
      },
      cancel: () => end(),
    });
  }

  subscribe(listener: Listener, url: URL): void {
    const inPath = url.pathname.replace(/^\/v1\/topics\/?/, "");
    const topics = inPath ? [`${inPath}${url.search}`] : url.searchParams.getAll("topic");
    // Over SSE with several topics, documents arrive whole.
    listener.isPatched = url.searchParams.get("deltas") === "patch" && !(listener.way === "sse" && topics.length > 1);
    const cursors = url.searchParams.getAll("cursor");
    for (const [index, given] of topics.entries()) {
      const [topic = "", query] = given.split("?");
      const filter = new URLSearchParams(query);
      const isWanted = keyFilter(filter.getAll("key"), filter.get("prefix"));
      this.begin(listener, topic, cursors[index] ?? cursors[0] ?? "latest", isWanted);
    }
  }

  begin(listener: Listener, topic: string, cursor: string, isWanted = keyFilter()): void {
    const filters = this.#filters.get(listener) ?? new Map<string, KeyFilter>();
    this.#filters.set(listener, filters.set(topic, isWanted));
    const stream = this.#stream(topic);
    const [, count] = cursor.split("newest.");
    if (count) {
      const at = Math.max(stream.trimmed, newest(stream) - Number(count));
      const isLog = !this.values.has(topic) && !this.keyed.has(topic);
      this.begin(listener, topic, isLog ? `${this.epoch}.${at}` : "latest", isWanted);
      return;
    }
    const [epoch, offset, least] = cursor.split(/[.~]/);
    let at = cursor === "latest" ? newest(stream) : cursor === "earliest" ? stream.trimmed : Number(offset);
    let gap: object | null = null;
    if (this.values.has(topic)) {
      const hadOther = Number(offset) > 0 && epoch !== this.epoch;
      at = epoch === this.epoch ? at : 0;
      if (offset === undefined) at = 0;
      if (hadOther && newest(stream) === 0) {
        listener.cursors.set(topic, 0);
        const gap = { missed: null, reason: "unknown" };
        listener.say(JSON.stringify({ topic, position: `${this.epoch}.0`, gap }));
        return;
      }
      const position = `${this.epoch}.${at}`;
      listener.cursors.set(topic, at);
      listener.say(JSON.stringify({ topic, position, first: at + 1, previous: at, events: [] }));
      this.#deliver(listener, topic);
      return;
    }
    if (this.keyed.has(topic)) {
      const hadOther = Number(offset) > 0 && epoch !== this.epoch;
      const next = offset === undefined || hadOther ? 1 : Number(offset) + 1;
      this.#beginKeyed(listener, topic, next, hadOther ? "epoch" : null, hadOther ? 0 : Number(least ?? 0));
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
    if (this.keyed.has(topic)) {
      this.#deliverKeyed(listener, topic, at);
      return;
    }
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

  /**
   * @param reason - of a gap: the subscriber begins again with no keys.
   * @param live - the head at which the keys of a subscriber within its first pages were live.
   */
  #beginKeyed(listener: Listener, topic: string, next: number, reason: string | null, live: number): void {
    const stream = this.#stream(topic);
    const isForgotten = next > 1 && next < stream.removedFrom && live + 1 < stream.removedFrom;
    const at = isForgotten ? 0 : next - 1;
    const why = isForgotten ? "trimmed" : reason;
    if (why) {
      listener.say(JSON.stringify({ topic, position: `${this.epoch}.0`, gap: { missed: null, reason: why } }));
    }
    listener.cursors.set(topic, at);
    const chains = this.#chains.get(listener) ?? new Map<string, number>();
    this.#chains.set(listener, chains);
    chains.set(topic, live);
    const until = newest(stream);
    const position = `${this.epoch}.${at}`;
    const confirmed = { topic, position, first: at + 1, ...(until > at && { until }), keys: [], events: [] };
    listener.say(JSON.stringify(confirmed));
    this.#deliver(listener, topic);
  }

  #deliverKeyed(listener: Listener, topic: string, at: number): void {
    const stream = this.#stream(topic);
    const chains = this.#chains.get(listener) as Map<string, number>;
    const live = chains.get(topic) ?? 0;
    if (at > 0 && at + 1 < stream.removedFrom && live + 1 < stream.removedFrom) {
      this.#beginKeyed(listener, topic, at + 1, null, 0);
      return;
    }
    const isWanted = this.#filters.get(listener)?.get(topic) ?? keyFilter();
    const isBehind = newest(stream) - at > TAIL || at === 0;
    const page = isBehind ? this.#page(topic, at, isWanted) : this.#tail(topic, at, isWanted);
    if (at === 0) chains.set(topic, page.until);
    else if (page.isPage) chains.set(topic, Math.min(live, page.until));
    listener.cursors.set(topic, page.last);
    listener.windows.get(topic)?.frames.push({ offset: page.last, bytes: page.json.length });
    listener.say(page.json);
    const pause = this.pauses();
    if (pause) setTimeout(() => this.#deliver(listener, topic), pause);
    else this.#deliver(listener, topic);
  }

  #page(topic: string, at: number, isWanted: KeyFilter): KeyedPage {
    const stream = this.#stream(topic);
    const { keys, events, pages, removedFrom } = stream;
    const isUsable = (page: KeyedPage): boolean =>
      page.at === at && page.isWanted === isWanted && page.until + 1 >= removedFrom;
    const old = this.repeats() && pages.find(isUsable);
    if (old) return old;
    const until = newest(stream);
    // A subscriber without keys needs no removals.
    const isSent = (offset: number): boolean => events[offset - 1] !== null || (at > 0 && offset >= removedFrom);
    const entries = [...new Map(keys.map((key, index) => [key, index + 1]))]
      .filter(([key, offset]) => isWanted(key) && offset > at && isSent(offset))
      .map(([, offset]) => offset)
      .sort((one, other) => one - other);
    const offsets = entries.slice(0, Math.min(this.most(), entries.length));
    const last = offsets.length < entries.length ? (offsets.at(-1) as number) : until;
    const json = this.#keyedEnvelope(topic, at, last, offsets, until);
    const page = { at, last, until, isPage: true, isWanted, json };
    pages.push(page);
    return page;
  }

  #tail(topic: string, at: number, isWanted: KeyFilter): KeyedPage {
    const stream = this.#stream(topic);
    const last = Math.min(newest(stream), at + this.most());
    const all = Array.from({ length: last - at }, (_, index) => at + index + 1);
    const offsets = all.filter((offset) => isWanted(stream.keys[offset - 1] as string));
    const json = this.#keyedEnvelope(topic, at, last, offsets, 0);
    return { at, last, until: last, isPage: false, isWanted, json };
  }

  #keyedEnvelope(topic: string, at: number, last: number, offsets: number[], until: number): string {
    const { keys, events } = this.#stream(topic);
    const first = offsets[0] ?? last + 1;
    const isConsecutive = offsets.every((offset, index) => offset === first + index);
    return JSON.stringify({
      topic,
      position: `${this.epoch}.${last}`,
      first,
      ...(at !== first - 1 && { after: at }),
      ...(until > last && { until }),
      ...(!isConsecutive && { offsets }),
      keys: offsets.map((offset) => keys[offset - 1]),
      events: offsets.map((offset) => events[offset - 1]),
    });
  }

  #missed(topic: string, at: number, reason: string): object {
    return { missed: this.sparse.has(topic) ? null : this.#stream(topic).trimmed - at, reason };
  }

  /** Returns the next events of a log after this offset, and the last offset. */
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

  /** Returns the newest version, as a patch of the version that the subscriber has. */
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

  ack(listener: Listener, topic: string, position: string): void {
    const window = listener.windows.get(topic);
    if (!window) return;
    // The server refuses other texts, and then waits for an ack.
    if (!/^\w+\.\d+$/.test(position)) return;
    const offset = Number(position.split(".")[1]);
    window.frames = window.frames.filter((frame) => frame.offset > offset);
    this.#deliver(listener, topic);
  }

  #stream(topic: string): Topic {
    const stream = this.topics.get(topic) ?? {
      events: [],
      offsets: [],
      trimmed: 0,
      keys: [],
      removedFrom: 1,
      pages: [],
    };
    this.topics.set(topic, stream);
    return stream;
  }
}

function newest({ offsets, trimmed }: Topic): number {
  return offsets.at(-1) ?? trimmed;
}

/** Returns the patch from one object to another, member by member. Arrays grow at the front. */
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
