// The common parts of the lab's Node and Bun peers: options, the rows of experiment A, the firehose of experiment C, and an
// endpoint for events.
import { createServer } from "node:http";
import * as hooks from "node:perf_hooks";
import { parseArgs } from "node:util";

/** Returns the options of the command line: the address to listen on, and the events to generate. */
export function options() {
  const { values } = parseArgs({
    options: {
      listen: { type: "string", default: "127.0.0.1:8080" },
      source: { type: "string", default: "none" },
      cork: { type: "boolean", default: false },
      deflate: { type: "boolean", default: false },
    },
  });
  const [, hostname, port] = /^\[?(.+?)\]?:(\d+)$/.exec(values.listen);
  const [kind, ...pairs] = values.source.split(",");
  const source = { kind, ...Object.fromEntries(pairs.map((pair) => pair.split("="))) };
  const { cork, deflate } = values;
  return { hostname, port: Number(port), source, cork, deflate };
}

/**
 * Interval of the timer that shows the delay of the event loop, ms. Four wake-ups a second, as Thalweg has,
 * cost little: 50 took 3 ms of CPU a second from an idle Node. It is prime to the intervals of loads, so that
 * the timer is due at all times of an interval.
 */
const LOOP_INTERVAL_MS = 237;
let loop;

/**
 * Returns the delays of the event loop since the first call: their sum in µs, and their number. The timer
 * does not run before.
 *
 * Node's histogram has the time from one run of its timer to the next, in ns, although the documentation
 * names it the delay (https://nodejs.org/api/perf_hooks.html for Node 20; nodejs/node#34661). An idle loop
 * therefore shows the interval of the timer, which is subtracted here. The timer has steps of 1 ms.
 */
function loopDelays() {
  if (!loop) {
    loop = hooks.monitorEventLoopDelay({ resolution: LOOP_INTERVAL_MS });
    loop.enable();
  }
  const { count, mean } = loop;
  return { sum_us: count > 0 ? count * (mean / 1000 - LOOP_INTERVAL_MS * 1000) : 0, count };
}

/**
 * Returns an HTTP server that answers `/healthz` and `/loop`. It passes each line that is posted to `/TOPIC`
 * to `broadcast(topic, line)`, and all other requests to `others(request, response)`.
 */
export function serve(broadcast, others) {
  // A publish request lasts as long as the measurement, so requests have no deadline. Request heads keep theirs, which Node would
  // otherwise disable, too.
  const server = createServer({ requestTimeout: 0, headersTimeout: 60_000 }, (request, response) => {
    if (request.url === "/healthz") {
      response.end("ok\n");
    } else if (request.url === "/loop") {
      response.end(JSON.stringify(loopDelays()));
    } else if (request.method === "POST") {
      const lines = new Lines((line) => broadcast(request.url.slice(1), line));
      request.on("data", (bytes) => lines.push(bytes));
      request.on("end", () => {
        const headers = { "Content-Type": "application/json" };
        response.writeHead(200, headers).end(JSON.stringify({ count: lines.count }));
      });
    } else if (others) {
      others(request, response);
    } else {
      response.writeHead(404).end();
    }
  });
  return server;
}

const LINE_FEED = 10;

/** A splitter of bytes into lines, however the bytes are cut. Each line is a Buffer. */
export class Lines {
  count = 0;
  #rest = [];
  #take;

  constructor(take) {
    this.#take = take;
  }

  push(bytes) {
    let begin = 0;
    for (let end; (end = bytes.indexOf(LINE_FEED, begin)) >= 0; begin = end + 1) {
      this.#rest.push(bytes.subarray(begin, end));
      const line = this.#rest.length === 1 ? this.#rest[0] : Buffer.concat(this.#rest);
      this.#rest = [];
      if (line.length > 0) {
        this.count += 1;
        this.#take(line);
      }
    }
    if (begin < bytes.length) {
      this.#rest.push(bytes.subarray(begin));
    }
  }
}

const ROW_TAIL =
  ',1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]';
/** The values of a row after its number and its due time. */
const ROW_VALUES = JSON.parse(`[0${ROW_TAIL}`).slice(1);
const TICKS_IN_A_TURN_MAX = 16;
/** Returns the time of the clock of the lab's schedules, µs. */
const monotonic = () => Number(process.hrtime.bigint() / 1000n);

/** Returns a batch as text: the rows after `sequence`, due at `due`. */
function textOf(batch, sequence, due) {
  let text = "[";
  for (let row = 1; row <= batch; row += 1) {
    text += `${row === 1 ? "" : ","}[${sequence + row},${due}${ROW_TAIL}`;
  }
  return text + "]";
}

/** Returns the same rows as arrays, for peers that write the JSON themselves. */
export function rowsOf(batch, sequence, due) {
  return Array.from({ length: batch }, (_, row) => [sequence + row + 1, due, ...ROW_VALUES]);
}

/**
 * Sends batches of rows to a topic, with `broadcast(topic, batch)`, if the source is one of rows.
 * `monotonicUs()` returns `CLOCK_MONOTONIC`, as Node's `hrtime` does.
 */
export function sendRows(source, broadcast, { batchOf = textOf, monotonicUs = monotonic } = {}) {
  if (source.kind !== "constant") return;
  const [batch, interval, start] = [source.batch, source.interval_us, source.start_us].map(Number);
  const passed = Math.ceil((monotonicUs() - start) / interval);
  let due = start + Math.max(0, passed) * interval;
  let sequence = 0;
  const turn = () => {
    // A late timer catches up, but lets other tasks run in between.
    for (let ticks = 0; ticks < TICKS_IN_A_TURN_MAX && due <= monotonicUs(); ticks += 1) {
      broadcast(source.topic, batchOf(batch, sequence, due));
      sequence += batch;
      due += interval;
    }
    const wait = (due - monotonicUs()) / 1000;
    wait <= 0 ? setImmediate(turn) : setTimeout(turn, wait);
  };
  turn();
}

/**
 * Pushes a dummy to one connection at an interval. Returns a function that stops it. If `isFull()`, the previous dummy is still
 * being sent, and the tick is skipped.
 */
export function pushDummies(source, isFull, send) {
  if (source.kind !== "dummy") return () => {};
  const dummy = "x".repeat(Number(source.size));
  const interval = Number(source.interval_us) / 1000;
  let due = performance.now() + interval;
  let timer;
  const turn = () => {
    for (let ticks = 0; ticks < TICKS_IN_A_TURN_MAX && due <= performance.now(); ticks += 1) {
      if (!isFull()) send(dummy);
      due += interval;
    }
    const wait = due - performance.now();
    timer = wait <= 0 ? setImmediate(turn) : setTimeout(turn, wait);
  };
  turn();
  return () => {
    clearTimeout(timer);
    clearImmediate(timer);
  };
}

/** Sets of subscribers by topic. */
export class Topics {
  #topics = new Map();

  add(topic, subscriber) {
    const subscribers = this.#topics.get(topic) ?? new Set();
    this.#topics.set(topic, subscribers.add(subscriber));
  }

  remove(topic, subscriber) {
    this.#topics.get(topic)?.delete(subscriber);
  }

  /** Returns the subscribers of a topic; none if there are none. */
  of(topic) {
    return this.#topics.get(topic) ?? [];
  }
}
