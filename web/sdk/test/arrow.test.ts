/** How a stream of columns resumes, and when it ends. */

import { beforeEach, describe, expect, it, vi } from "vitest";
import { columns, ThalwegError } from "../dist/arrow.js";
import {
  type Answer,
  answer,
  BEFORE,
  boundaries,
  CARS,
  FIGURES,
  receive,
  refusal,
  rows,
  TABLES,
  TYPE,
  until,
} from "./arrow-server.js";
import { CLOCK, Tab } from "./fixture.js";

const END = boundaries(CARS);
/** The preamble and the three frames, by message number. */
const PREAMBLE = CARS.slice(0, END[4]);
const FRAMES = [CARS.slice(END[4], END[7]), CARS.slice(END[8], END[11]), CARS.slice(END[11], END[14])] as const;
const CLOSE = CARS.slice(END[14]);
const EOS = CARS.slice(-8);
const HEADERS = { "Content-Type": TYPE, "Thalweg-Position": BEFORE };
/** Positions after each frame. */
const AFTER = [3, 5, 25].map((count) => `e1.${2 ** 33 - 1 + count}`) as [string, string, string];

beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  vi.spyOn(Math, "random").mockReturnValue(0);
});

async function waited(ms = 1000): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}

const cursors = (page: { requests: readonly { url: URL }[] }): (string | null)[] =>
  page.requests.map(({ url }) => url.searchParams.get("cursor"));
const seen = (page: { batches: Parameters<typeof rows>[0][] }): unknown[] => page.batches.map(rows);

it("requests columns of a topic with the token and the given start", async () => {
  const page = receive([answer([PREAMBLE], {}, "stay")], { from: BEFORE, token: async () => "secret" });
  expect(page.stream.status).toEqual({ state: "connecting", reason: null });
  await until(() => page.statuses.includes("open"));
  const [{ url, headers }] = page.requests as [(typeof page.requests)[0]];
  expect(url.href).toBe(`http://server/v1/topics/cars?cursor=${BEFORE}`);
  expect(headers).toEqual({ Accept: TYPE, Authorization: "Bearer secret" });
  expect(page.stream.position).toBe(BEFORE);
  expect(page.batches).toEqual([]);
  const other = receive([], { interval: 249.5, policy: "latest" });
  await until(() => other.requests.length === 1);
  expect(other.requests[0]?.url.search).toBe("?cursor=latest&interval=250ms&policy=latest");
});

it("resumes after the last row with a new token when the connection breaks", async () => {
  let tokens = 0;
  const cut = answer([PREAMBLE, FRAMES[0], FRAMES[1].slice(0, 100)], {}, "cut");
  const rest = answer(
    [PREAMBLE, FRAMES[1], FRAMES[2]],
    { "Thalweg-Position": AFTER[0], "Thalweg-Resume": "exact" },
    "stay",
  );
  const page = receive([cut, rest], { token: () => `t${++tokens}` });
  await until(() => page.stream.status.state === "waiting");
  await waited();
  await until(() => page.batches.length === 3);
  expect(cursors(page)).toEqual(["latest", AFTER[0]]);
  expect(page.requests.map(({ headers }) => headers["Authorization"])).toEqual(["Bearer t1", "Bearer t2"]);
  expect(seen(page)).toEqual(TABLES.cars);
  expect(page.batches.map(({ gap, schemaChanged }) => [gap, schemaChanged])).toEqual(Array(3).fill([null, false]));
  expect(page.statuses).toEqual(["open", "waiting: TypeError: network", "connecting", "open"]);
});

/** Returns the stream's close message with another code of the same length. */
function closing(code: number, isForGood = false): Uint8Array {
  const said = '{"code": 1012, "reason": "draining", "reconnect": true}';
  const other = isForGood
    ? `{"code": ${code}, "reason": "drained", "reconnect": false}`
    : `{"code": ${code}, "reason": "draining", "reconnect": true}`;
  return Uint8Array.from(Buffer.from(Buffer.from(CLOSE).toString("latin1").replace(said, other), "latin1"));
}

it.each([
  ["close 4003", closing(4003)],
  ["nothing but its end", EOS],
])("a stream that ends with %s, so that another one begins, is opened again at once", async (_, end) => {
  const first = answer([PREAMBLE, FRAMES[0], end]);
  const other = answer(
    [FIGURES.slice(0, -8)],
    { "Thalweg-Position": AFTER[2], "Thalweg-Resume": "gap; reason=slow; missed=22" },
    "stay",
  );
  const page = receive([first, other]);
  await until(() => page.batches.length === 3);
  expect(cursors(page)).toEqual(["latest", AFTER[0]]);
  const [, gap, after] = page.batches;
  expect(gap).toMatchObject({ gap: { missed: 22, reason: "slow" }, schemaChanged: true, count: 0, position: AFTER[2] });
  expect(after).toMatchObject({ gap: null, schemaChanged: false, count: 3, first: 2 ** 33 + 25 });
  expect(seen(page)[2]).toEqual(TABLES.figures[0]);
  expect(page.statuses).toEqual(["open", "connecting: the stream restarts", "open"]);
});

it.each([
  ["nothing at all", [EOS]],
  ["no rows", [PREAMBLE, closing(4003)]],
])("one that ends again and again with %s is not opened again at once", async (_, pieces) => {
  const page = receive(Array(5).fill(answer(pieces)));
  await until(() => page.stream.status.state === "waiting");
  expect(page.requests.length).toBe(1);
});

it("reports changed columns once, even if only the server knows the previous ones", async () => {
  const headers = { "Thalweg-Position": AFTER[2], "Thalweg-Resume": "schema" };
  const page = receive([answer([FIGURES], headers, "stay")], { from: AFTER[2] });
  await until(() => page.batches.length === 1);
  expect(page.batches[0]).toMatchObject({ gap: null, schemaChanged: true });
});

describe("a gap", () => {
  it.each([
    ["gap; reason=trimmed; missed=120", { missed: 120, reason: "trimmed" }],
    ["gap; reason=epoch", { missed: null, reason: "epoch" }],
  ])("is told before any row: %s", async (resume, gap) => {
    const first = answer([PREAMBLE], { "Thalweg-Resume": resume }, "cut");
    const again = answer([PREAMBLE, FRAMES[0]], { "Thalweg-Resume": resume }, "stay");
    const page = receive([first, again], { from: "e0.7" });
    await until(() => page.stream.status.state === "waiting");
    expect(page.batches).toMatchObject([{ count: 0, gap, position: BEFORE, first: 2 ** 33 }]);
    expect(page.batches[0]?.table.numRows).toBe(0);
    expect(page.batches[0]?.table.names[1]).toBe("car");
    expect(Array.from(page.batches[0]?.table.getChild("car")?.toArray() ?? [1])).toEqual([]);
    await waited();
    await until(() => page.requests.length === 2);
    // The gap is reported: from now on the cursor is after it.
    expect(cursors(page)).toEqual(["e0.7", BEFORE]);
  });

  it("is requested again if it could not be reported", async () => {
    const resume = { "Thalweg-Resume": "gap; reason=trimmed; missed=5" };
    const page = receive([answer([], resume, "cut"), answer([PREAMBLE, FRAMES[0]], resume, "stay")], { from: "e1.7" });
    await until(() => page.stream.status.state === "waiting");
    await waited();
    await until(() => page.batches.length === 2);
    expect(cursors(page)).toEqual(["e1.7", "e1.7"]);
    expect(page.batches.map(({ gap, count }) => [gap?.missed, count])).toEqual([
      [5, 0],
      [undefined, 3],
    ]);
  });

  it("is reported even if the server does not announce it", async () => {
    const page = receive([answer([PREAMBLE], {}, "stay")], { from: "e1.7" });
    await until(() => page.batches.length === 1);
    expect(page.batches[0]).toMatchObject({ gap: { missed: null, reason: "unannounced" } });
  });
});

describe("a close", () => {
  it("with retry advice is followed by a reconnect after a delay", async () => {
    const back = answer([PREAMBLE], { "Thalweg-Position": AFTER[0], "Thalweg-Resume": "exact" }, "stay");
    const page = receive([answer([PREAMBLE, FRAMES[0], CLOSE]), back]);
    await until(() => page.stream.status.state === "waiting");
    expect(page.stream.status.reason).toBe("draining");
    await waited();
    await until(() => page.stream.status.state === "open");
    expect(cursors(page)).toEqual(["latest", AFTER[0]]);
  });

  it.each([
    [1008, "close_1008"],
    [4500, "close_4500"],
  ])("with %i is for good", async (code, error) => {
    const page = receive([answer([PREAMBLE, FRAMES[0], closing(code, true)])]);
    await until(() => page.stream.status.state === "closed");
    expect(page.errors).toMatchObject([{ code: error, message: "drained", status: null }]);
    expect(page.errors[0]).toBeInstanceOf(ThalwegError);
    expect(page.statuses.at(-1)).toBe("closed: drained");
    expect(page.batches.length).toBe(1);
  });

  it("of the topic has a reason", async () => {
    const said = '{"code": 1012, "reason": "draining", "reconnect": true}';
    // The text of the vector has room for as many bytes.
    const room = said.length;
    const shorter = `{"code":4500,"reconnect":false,"end":{"code":"slow"}}`;
    expect(shorter.length).toBeLessThanOrEqual(room);
    const bytes = Buffer.from(CLOSE).toString("latin1").replace(said, shorter.padEnd(room));
    const last = Uint8Array.from(Buffer.from(bytes, "latin1"));
    const head = { "Thalweg-Position": AFTER[0], "Thalweg-Resume": "end; code=slow" };
    const page = receive([answer([PREAMBLE, last], head)], { from: AFTER[0] });
    await until(() => page.stream.status.state === "closed");
    expect(page.errors).toMatchObject([{ code: "slow" }]);
    // The stream does not request the deleted topic again.
    expect(page.requests.length).toBe(1);
    expect(page.batches).toEqual([]);
  });

  it("by the page stops batches and requests", async () => {
    const page = receive([answer([PREAMBLE, ...FRAMES], {}, "stay")], {}, () => page.stream.close());
    await until(() => page.stream.status.state === "closed");
    await until(() => page.requests[0]?.signal.aborted === true);
    expect(page.batches.length).toBe(1);
    expect(page.errors).toEqual([]);
    expect(page.statuses).toEqual(["open", "closed"]);
  });
});

describe("a refusal", () => {
  it.each([
    [406, "not_acceptable"],
    [400, "bad_request"],
    [403, "forbidden"],
  ])("with %i is for good", async (status, code) => {
    const page = receive([refusal(status, code)]);
    await until(() => page.stream.status.state === "closed");
    expect(page.errors).toMatchObject([{ code, status }]);
  });

  it("of a token is final the second time", async () => {
    const page = receive([refusal(401, "unauthorized"), refusal(401, "unauthorized")]);
    await until(() => page.stream.status.state === "waiting");
    await waited();
    await until(() => page.stream.status.state === "closed");
    expect(page.requests.length).toBe(2);
    expect(page.errors).toMatchObject([{ code: "unauthorized", status: 401 }]);
  });

  it.each<[string, Answer]>([
    ["that may pass", refusal(503, "busy")],
    ["by somebody in between", () => new Response("<h1>No", { status: 404 })],
    ["that is a page of somebody else", () => new Response("<h1>Log in", { headers: { "Content-Type": "text/html" } })],
  ])("%s is tried again", async (_, first) => {
    const page = receive([first, answer([PREAMBLE], {}, "stay")]);
    await until(() => page.stream.status.state === "waiting");
    await waited();
    await until(() => page.stream.status.state === "open");
    expect(page.errors).toEqual([]);
  });
});

describe("a page", () => {
  it("that is slow is waited for, and no data is read in the meantime", async () => {
    let done = (): void => {};
    let pulled = 0;
    const listener = (): Promise<void> => new Promise((go) => (done = go));
    const pieces = [PREAMBLE, ...FRAMES];
    const body = new ReadableStream<Uint8Array>(
      {
        pull(stream) {
          const next = pieces[pulled++];
          if (next) stream.enqueue(next);
        },
      },
      { highWaterMark: 0 },
    );
    const page = receive([() => new Response(body, { headers: HEADERS })], { idleTimeout: 1000 }, listener);
    for (let frame = 1; frame <= 3; frame++) {
      await until(() => page.batches.length === frame);
      // Longer than the idle timeout.
      await waited(5000);
      expect(page.batches.length).toBe(frame);
      expect(pulled).toBe(frame + 1);
      expect(page.stream.position).toBe(frame === 1 ? BEFORE : AFTER[frame - 2]);
      done();
    }
    await until(() => page.stream.position === AFTER[2]);
    expect(page.stream.status.state).toBe("open");
  });

  it("that throws gets an uncaught error, and the stream continues", async () => {
    const caught: unknown[] = [];
    const note = (error: unknown): void => void caught.push(error);
    const before = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", note);
    try {
      let number = 0;
      const page = receive([answer([PREAMBLE, ...FRAMES], {}, "stay")], {}, () => {
        number += 1;
        if (number === 1) throw new Error("first");
        if (number === 2) return Promise.reject(new Error("second"));
      });
      await until(() => page.batches.length === 3 && caught.length === 2);
      expect(caught).toMatchObject([{ message: "first" }, { message: "second" }]);
    } finally {
      process.off("uncaughtException", note);
      for (const listener of before) process.on("uncaughtException", listener);
    }
  });

  it("that becomes visible reconnects at once", async () => {
    const tab = new Tab();
    vi.stubGlobal("document", tab);
    vi.stubGlobal("addEventListener", tab.addEventListener.bind(tab));
    vi.stubGlobal("removeEventListener", tab.removeEventListener.bind(tab));
    const page = receive([answer([PREAMBLE], {}, "cut"), answer([PREAMBLE], {}, "stay")]);
    await until(() => page.stream.status.state === "waiting");
    tab.hide(false);
    await until(() => page.stream.status.state === "open");
    page.stream.close();
    vi.unstubAllGlobals();
  });
});

describe("silence", () => {
  it("of a server that does not answer ends the attempt", async () => {
    const page = receive([]);
    await until(() => page.requests.length === 1);
    await waited(4999);
    expect(page.stream.status.state).toBe("connecting");
    await waited(1);
    await until(() => page.stream.status.state === "waiting");
    expect(page.stream.status.reason).toBe("silent");
  });

  it("of a connection ends it, and heartbeats do not count as silence", async () => {
    const heartbeat = CARS.slice(END[7], END[8]);
    let send = (_: Uint8Array): void => {};
    const server: Answer = (signal) => {
      const body = new ReadableStream<Uint8Array>({
        start(stream) {
          signal.addEventListener("abort", () => stream.error(signal.reason));
          stream.enqueue(PREAMBLE);
          send = (bytes) => stream.enqueue(bytes);
        },
      });
      return new Response(body, { headers: HEADERS });
    };
    const page = receive([server]);
    await until(() => page.stream.status.state === "open");
    for (let minute = 0; minute < 3; minute++) {
      await waited(59_000);
      send(heartbeat);
      await new Promise((go) => setImmediate(go));
      expect(page.stream.status.state).toBe("open");
    }
    await waited(60_001);
    await until(() => page.stream.status.state === "waiting");
    expect(page.stream.status.reason).toBe("silent");
    expect(page.batches).toEqual([]);
  });
});

it("rejects invalid arguments before a request is sent", () => {
  expect(() => columns("http://server/", "a b", {}, () => {})).toThrowError(/a b is not a topic name/);
  expect(() => columns("http://server/", "a", { from: "yesterday" }, () => {})).toThrowError(
    /yesterday is not a cursor/,
  );
});
