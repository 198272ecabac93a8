/** The golden vectors (vectors/README.md), the part that a client can check. */

import { afterEach, describe, expect, it, vi } from "vitest";
import { foreverFrame } from "../dist/forever-frame.js";
import type { Batch, ConnectOptions, Message, Session, Status, ThalwegError, TransportName } from "../dist/thalweg.js";
import { connect } from "../dist/thalweg.js";
import { mockEventSource, mockFetch, mockFrame, mockWebSocket } from "./platform-mocks.js";
import { bytes, read, type Said, type Text } from "./vectors.js";

const topics = read<{ valid: { topic: Text }[]; invalid: { topic: Text }[] }>("topics.json");
const positions = read<{
  valid: { position: string }[];
  invalid: { position: string }[];
  cursors: { cursor: Text }[];
  no_cursors: { cursor: Text }[];
}>("positions.json");
const { messages } = read<{ messages: (Said & { json: Text })[] }>("messages.json");
type Framed = Said & Record<"ndjson" | "websocket" | "sse" | "sse_many" | "forever_frame", Text>;
const { frames } = read<{ frames: Framed[] }>("frames.json");
const { errors } = read<{ errors: { code: string; status: number }[] }>("errors.json");
interface Published {
  topic: string;
  position: string;
  first: number;
  count: number;
}
const commands = read<{
  commands: ({ text: string; id: string | null } & Record<string, unknown>)[];
  answers: { id: string | null; published: Published; body: string; answer: string }[];
  done: { topic: string; position: string | null; answer: string }[];
  echoed: { data: string; answer: string }[];
  refusals: { code: string; message: string; json: string }[];
}>("commands.json");

const never: typeof fetch = () => new Promise(() => {});

afterEach(() => {
  vi.unstubAllGlobals();
});

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((go) => setImmediate(go));
}

async function heard(topic: string, options: ConnectOptions, count = 20) {
  const batches: Batch<unknown>[] = [];
  const statuses: Status[] = [];
  const session = connect("http://server/", { ...options, onStatus: (status) => void statuses.push(status) });
  const errors: ThalwegError[] = [];
  const terms = { from: "earliest", onError: (error: ThalwegError) => void errors.push(error) };
  const subscription = session.subscribe(topic, terms, (batch) => void batches.push(batch));
  await turns(count);
  const { state } = session.status;
  const { position } = subscription;
  session.close();
  return { batches, statuses, state, position, errors };
}

function expectSaid(
  said: Said,
  { batches, statuses, state, position, errors }: Awaited<ReturnType<typeof heard>>,
): void {
  if (said.envelope) {
    const events = said.envelope.events.map((event) => JSON.parse(bytes(event).toString()) as unknown);
    expect(batches.flatMap((batch) => batch.events)).toEqual(events);
    expect(batches.flatMap((batch) => batch.offsets ?? batch.events.map((_, index) => batch.first + index))).toEqual(
      said.envelope.offsets ?? events.map((_, index) => (said.envelope?.first ?? 0) + index),
    );
    expect(position).toBe(said.envelope.position);
  } else if (said.gap) {
    const { missed, reason } = said.gap;
    expect(batches).toMatchObject([{ events: [], gap: { missed, reason } }]);
    expect(position).toBe(said.gap.position);
  } else {
    expect(batches).toEqual([]);
    if (said.end) expect(errors).toMatchObject([{ code: said.end.code, message: said.end.reason }]);
    if (said.heartbeat) expect(statuses).toContainEqual(expect.objectContaining({ state: "open" }));
    if (said.close) {
      expect(statuses).toContainEqual(expect.objectContaining({ reason: said.close.reason }));
      // After all topics have ended, the session may want others.
      expect(state === "closed").toBe(!said.close.reconnect && said.close.code !== 4500);
    }
  }
}

const about = (said: Said): string => said.envelope?.topic ?? said.gap?.topic ?? said.end?.topic ?? "cars";

describe("topics", () => {
  const subscribe = (topic: string): void => {
    const session = connect("http://server/", { fetch: never });
    session.subscribe(topic);
    session.close();
  };
  it.each(topics.valid)("$topic is one", ({ topic }) => {
    expect(() => subscribe(bytes(topic).toString())).not.toThrow();
  });
  it.each(topics.invalid)("$topic is none", ({ topic }) => {
    expect(() => subscribe(bytes(topic).toString())).toThrow("is not a topic name");
  });
});

describe("positions and cursors", () => {
  const begin = (from: string): void => {
    const session = connect("http://server/", { fetch: never });
    session.subscribe("cars", { from });
    session.close();
  };
  const named = new Set(["latest", "earliest"]);
  const right = [
    ...positions.cursors.map(({ cursor }) => bytes(cursor).toString()),
    ...positions.valid.map((it) => it.position),
  ];
  const wrong = [
    ...positions.no_cursors.map(({ cursor }) => bytes(cursor).toString()),
    ...positions.invalid.map((it) => it.position).filter((it) => !named.has(it)),
  ];
  it.each(right)("%j is one", (from) => {
    expect(() => begin(from)).not.toThrow();
  });
  it.each(wrong)("%j is none", (from) => {
    expect(() => begin(from)).toThrow("is not a cursor");
  });
});

describe.each([1, 7, 1 << 20])("messages as lines, %i bytes at a time", (size) => {
  const all = [
    ...messages.map(({ json, ...said }) => ({ said, line: Buffer.concat([bytes(json), Buffer.from("\n")]) })),
    ...frames.map(({ ndjson, ...said }) => ({ said, line: bytes(ndjson) })),
  ].filter(({ line }) => line.length / size < 5000);
  it.each(all)("$said", async ({ said, line }) => {
    const options: ConnectOptions = { transports: ["http-streaming"], fetch: mockFetch(line, size) };
    expectSaid(said, await heard(about(said), options, 20 + line.length / size));
  });
});

describe("missing events before an envelope", () => {
  const logs = messages.flatMap(({ envelope, json }) =>
    envelope && envelope.previous === undefined && envelope.events.length ? [{ ...envelope, json }] : [],
  );
  it.each(logs)("$json", async ({ topic, position, first, after = first - 1, json }) => {
    const gapAfter = async (offset: number) => {
      const confirmed = { topic, position: `${position.split(".")[0]}.${offset}`, first: offset + 1, events: [] };
      const lines = Buffer.concat([Buffer.from(`${JSON.stringify(confirmed)}\n`), bytes(json), Buffer.from("\n")]);
      const { batches } = await heard(topic, { transports: ["http-streaming"], fetch: mockFetch(lines, 1 << 20) });
      return batches[0]?.gap;
    };
    expect(await gapAfter(after)).toBeNull();
    const missed = after === first - 1 ? 1 : null;
    if (after > 0) expect(await gapAfter(after - 1)).toEqual({ missed, reason: "unannounced" });
  });
});

describe("frames", () => {
  const over = (name: TransportName | typeof foreverFrame) => ({ transports: [name], fetch: never });
  it.each(frames)("over WebSocket %#", async ({ websocket, ...said }) => {
    mockWebSocket(bytes(websocket));
    expectSaid(said, await heard(about(said), over("websocket")));
  });
  it.each(frames)("over SSE %#", async ({ sse, ...said }) => {
    mockEventSource(bytes(sse).toString());
    expectSaid(said, await heard(about(said), over("sse")));
  });
  it.each(frames)("over SSE with several topics %#", async ({ sse_many, ...said }) => {
    mockEventSource(bytes(sse_many).toString());
    expectSaid(said, await heard(about(said), over("sse")));
  });
  it.each(frames)("in a forever frame %#", async ({ forever_frame, ...said }) => {
    mockFrame(bytes(forever_frame).toString());
    expectSaid(said, await heard(about(said), over(foreverFrame)));
  });
});

describe("commands", () => {
  /** A session over an open WebSocket, its commands, and a way to answer them. */
  async function spoken() {
    const said: Record<string, unknown>[] = [];
    let hear = (_: { data: string }): void => {};
    vi.stubGlobal(
      "WebSocket",
      class {
        onopen?: () => void;
        set onmessage(its: typeof hear) {
          hear = its;
        }
        constructor() {
          setImmediate(() => this.onopen?.());
        }
        send(text: string): void {
          said.push(JSON.parse(text) as Record<string, unknown>);
        }
        close(): void {}
      },
    );
    const session = connect("http://server/", { transports: ["websocket"], fetch: never });
    const options = { from: "9f3c21.1042", interval: 250, policy: "skip" } as const;
    const subscription = session.subscribe("cars", options);
    await turns(3);
    hear({ data: '{"topic":"cars","position":"9f3c21.1042","first":1043,"events":[]}' });
    return { session, subscription, said, hear: (text: string) => hear({ data: text }) };
  }

  /** Answers the last command with the answer of a vector. */
  const to = (said: Record<string, unknown>[], json: string): string => {
    const { answer, error, ...others } = JSON.parse(json) as { answer?: object; error?: object };
    const id = said.at(-1)?.["id"];
    return JSON.stringify(answer ? { answer: { ...answer, id } } : { error: { ...error, id }, ...others });
  };

  it("are what the vectors have, and nothing else", async () => {
    const { session, subscription, said } = await spoken();
    void session.publish("cars", 1, 2, 3).catch(() => {});
    void session.request({ any: "JSON" }).catch(() => {});
    const loop = (async () => {
      for await (const batch of subscription) void batch;
    })();
    subscription.close();
    await loop;
    await turns(1);
    session.close();
    const known = new Map<unknown, Set<string>>();
    for (const { text } of commands.commands) {
      const members = JSON.parse(text) as Record<string, unknown>;
      const set = known.get(members["command"]) ?? new Set();
      for (const member of Object.keys(members)) set.add(member);
      known.set(members["command"], set);
    }
    expect(said.map(({ command }) => command)).toEqual(["subscribe", "publish", "echo", "unsubscribe"]);
    for (const members of said) {
      for (const member of Object.keys(members)) expect(known.get(members["command"])).toContain(member);
    }
    const { id: _, ...subscribe } = said[0] as Record<string, unknown>;
    expect(subscribe).toMatchObject({ topic: "cars", cursor: "9f3c21.1042", policy: "skip", interval: "250ms" });
  });

  it.each(commands.answers)("published: $answer", async ({ published, answer, body }) => {
    const { session, said, hear } = await spoken();
    const told = session.publish(published.topic, 1, 2);
    hear(to(said, answer));
    expect(await told).toMatchObject(published);
    session.close();
    const posting = connect("http://server/", { fetch: async () => new Response(body) });
    expect(await posting.publish(published.topic, 1)).toEqual(published);
  });

  it.each(commands.echoed)("echoed: $answer", async ({ data, answer }) => {
    const { session, said, hear } = await spoken();
    const told = session.request(JSON.parse(data));
    hear(to(said, answer));
    expect(await told).toEqual(JSON.parse(data));
    session.close();
    const posting = connect("http://server/", { fetch: async () => new Response(answer) });
    expect(await posting.request(1)).toEqual(JSON.parse(data));
  });

  it.each(commands.done)("done: $answer", async ({ answer }) => {
    const { session, said, hear } = await spoken();
    hear(to(said, answer));
    expect(session.status.state).toBe("open");
    session.close();
  });

  const conditionFailed = {
    code: "condition_failed",
    message: "the key exists",
    json: '{"error":{"code":"condition_failed","message":"the key exists"},"newest":{"position":"9f.7","event":{"x":1}}}',
  };
  it.each([...commands.refusals, conditionFailed])("refused: $json", async ({ code, message, json }) => {
    const { session, said, hear } = await spoken();
    const { newest = null } = JSON.parse(json) as Pick<Message, "newest">;
    const refused = expect(session.request(1)).rejects.toMatchObject({ code, message, status: null, newest });
    hear(to(said, json));
    await refused;
    session.close();
    const posting: Session = connect("http://server/", { fetch: async () => new Response(json, { status: 400 }) });
    await expect(posting.request(1)).rejects.toMatchObject({ code, message, status: 400, newest });
  });
});

describe("errors", () => {
  it.each(errors)("$code, $status, ends a session unless it passes", async ({ code, status }) => {
    const message = "in words";
    const refuse = async () => new Response(JSON.stringify({ error: { code, message } }), { status });
    const { state, statuses } = await heard("cars", { transports: ["long-polling"], fetch: refuse });
    // The first rejection of a token is followed by a fresh token.
    const full = [
      "too_many_from_address",
      "too_many_queries",
      "too_many_requests",
      "too_many_connections",
      "busy",
      "unavailable",
      // A session never asks for it: to the SDK it is a failure of the server, as each status from 500 on.
      "unsupported_protocol",
      "unknown",
      "ticket_unknown",
      "storage_full",
    ];
    const passes = ["slow_request", "draining", "unauthorized", ...full];
    expect(state).toBe(passes.includes(code) ? "waiting" : "closed");
    expect(statuses.map(({ reason }) => reason)).toContain(message);
  });
});
