/**
 * The load in a page or in one of its workers: connections to the server that serves the page. `thalweg-lab bench --browser`
 * calls the functions at the end of this file, with `Runtime.evaluate`.
 *
 * @typedef {{ transport: string, dialect: string, topic: string, connections: number, consumer: string,
 *   worker: boolean }} LoadOptions - `dialect` is the subject's; `worker`: the connections run in a worker.
 * @typedef {{ first: number, count: number, gap: object | null, bytes: number, dueUs: number }} Given - a summary of a
 *   batch of the package.
 */

const OPENING_MAX = 20;
/** Time in which all connections must open, ms; shorter than the timeout of the lab (`browser/cdp.rs`). */
const OPEN_WITHIN_MS = 50_000;

class Load {
  /** @param {LoadOptions} wanted */
  constructor(wanted) {
    this.wanted = wanted;
    this.ledger = new Ledger();
    this.timeline = new Timeline();
    /** @type {(() => void)[]} */
    this.closes = [];
    this.standing = 0;
    this.why = "";
    /** The transport that the live page uses. */
    this.way = "";
    /** @type {LiveLooks | undefined} */
    this.live = undefined;
  }

  async open() {
    const by = { sdk: this.bySdk, arrow: this.byArrow, "arrow-every-value": this.byArrow }[this.wanted.consumer];
    if (by) {
      const why = "was the subject built with make pages?";
      const shipped = await imported(`/sdk/${by === this.bySdk ? "thalweg" : "arrow"}.js`, why);
      const all = Array.from({ length: this.wanted.connections }, (_, number) => by.call(this, shipped, number));
      return void (await Promise.all(all));
    }
    const consumer = consumers(this.ledger, this.wanted.dialect)[this.wanted.consumer];
    if (!consumer) throw new Error(`there is no consumer ${this.wanted.consumer}`);
    const numbers = Array.from({ length: this.wanted.connections }, (_, number) => number);
    while (numbers.length > 0) {
      await Promise.all(numbers.splice(0, OPENING_MAX).map((number) => this.connect(number, consumer)));
    }
  }

  /** @param {number} number @param {Consumer} consumer @returns {Promise<void>} resolves when the connection is open. */
  connect(number, consumer) {
    return new Promise((resolve, reject) => {
      const receive = (/** @type {any} */ message, /** @type {number} */ bytes) => {
        try {
          this.timeline.add(consumer(number, message), bytes);
        } catch {
          this.ledger.corrupt();
        }
      };
      const handlers = {
        stands: () => {
          this.standing += 1;
          resolve();
        },
        text: (/** @type {string} */ message) => receive(message, message.length),
        rows: receive,
        ...(this.wanted.consumer === "raw" ? { bytes: rawLines(receive) } : {}),
        ended: (/** @type {string} */ why) => {
          this.ledger.cut();
          this.standing -= 1;
          this.why ||= why;
          reject(new Error(why));
        },
      };
      this.closes.push(subscribed(this.wanted, handlers));
    });
  }

  /**
   * Connects with the npm package, which reports gaps itself.
   * @param {any} shipped @param {number} number @returns {Promise<void>} resolves with the first events.
   */
  bySdk({ connect }, number) {
    const session = connect(ORIGIN, { transports: [this.wanted.transport] });
    this.closes.push(() => session.close());
    let sum = 0;
    return this.taken(number, (take, onError) =>
      session.subscribe(this.wanted.topic, { onError }, (/** @type {any} */ { first, events, gap, bytes }) => {
        for (const row of events) sum += row[READ];
        take({ first, count: events.length, gap, bytes, dueUs: events[0]?.[1] ?? 0 });
      }),
    );
  }

  /** Receives columns of Arrow with the npm package. @param {any} shipped @param {number} number @returns {Promise<void>} */
  byArrow({ columns }, number) {
    let sum = 0;
    const isEvery = this.wanted.consumer === "arrow-every-value";
    /** @type {number | null} Difference between the rows' own numbers and their offsets. */
    let shift = null;
    return this.taken(number, (take, onError) => {
      const stream = columns(ORIGIN, this.wanted.topic, { onError, reuse: true }, (/** @type {any} */ batch) => {
        const { table, first, count, gap, bytes } = batch;
        // The offsets are before the row's own columns.
        const column = (/** @type {number} */ index) => table.children[1 + index];
        const read = isEvery ? table.children.slice(1) : [column(READ)];
        for (const values of count ? read.map((/** @type {any} */ it) => it.toArray()) : []) {
          sum += ArrayBuffer.isView(values) ? sumOf(/** @type {any} */ (values)) : valuesOf(values);
        }
        const ahead = count ? [column(0).at(0) - first, column(0).at(count - 1) - (first + count - 1)] : [];
        shift ??= ahead[0] ?? null;
        if (ahead.some((difference) => difference !== shift)) this.ledger.corrupt();
        take({ first, count, gap, bytes, dueUs: count ? column(1).at(0) : 0 });
      });
      this.closes.push(() => stream.close());
    });
  }

  /**
   * Records the batches of the package. Resolves with the first events.
   * @param {number} number @param {(take: (batch: Given) => void, onError: (error: Error) => void) => void} begin
   * @returns {Promise<void>}
   */
  async taken(number, begin) {
    await /** @type {Promise<void>} */ (
      new Promise((resolve, reject) => {
        const take = (/** @type {Given} */ { first, count, gap, bytes, dueUs }) => {
          if (gap) this.ledger.gap(number, first - 1);
          this.timeline.add({ events: this.ledger.arrived(number, first, first + count - 1), dueUs }, bytes);
          if (count > 0) resolve();
        };
        begin(take, (error) => {
          this.ledger.cut();
          this.why ||= String(error);
          reject(error);
        });
      })
    );
    this.standing += 1;
  }

  /** Observes the live page, and counts its only connection. */
  watch() {
    const read = consumers(this.ledger, "thalweg")["raw"];
    this.live = new LiveLooks();
    const { ledger, timeline } = this;
    this.way = "events over a WebSocket";
    let isColumns = false;
    this.live.watch({
      message: (message) => {
        // The page has left the WebSocket for columns: further data is dropped, and arrives again as columns.
        if (isColumns) return { last: 0, dueUs: 0 };
        const taken = /** @type {Consumer} */ (read)(0, message);
        timeline.add(taken, message.length);
        this.standing = 1;
        return { last: /** @type {number} */ (ledger.next[0]) - 1, dueUs: taken.dueUs };
      },
      begins: (offset, isGap) => {
        // Events that the WebSocket could not deliver are the reason for the switch to columns, and no fault.
        const isFirst = !isColumns;
        if (isFirst) ledger.counts.gaps = 0;
        isColumns = true;
        this.way = "columns of Arrow";
        this.standing = 1;
        if (isFirst) ledger.next[0] = offset + 1;
        else if (isGap) ledger.gap(0, offset);
        // The page requests unhandled events again. Events that it skips are missing.
        else if (offset + 1 < (ledger.next[0] ?? 0)) ledger.next[0] = offset + 1;
        else ledger.arrived(0, offset + 1, offset);
      },
      frame: ({ first, last, dueUs, bytes }) => {
        timeline.add({ events: ledger.arrived(0, first, last), dueUs }, bytes);
      },
    });
  }

  /** @param {number} fromMs */
  report(fromMs) {
    const { counts } = this.ledger;
    const { looks, inputs } = this.live?.since(fromMs) ?? { looks: [], inputs: [] };
    const { standing, why, way } = this;
    return { points: this.timeline.since(fromMs), counts, standing, why, way, looks, inputs };
  }

  close() {
    for (const close of this.closes) close();
  }
}

/** Returns a promise that rejects after `OPEN_WITHIN_MS`. @param {Load} load @returns {Promise<never>} */
function late(load) {
  return new Promise((_, reject) => {
    const stood = () =>
      `${load.standing} of ${load.wanted.connections} connections were open after ${OPEN_WITHIN_MS / 1000} s`;
    const remedy = "over HTTP/1.1 a browser opens at most six to an origin, not counting WebSockets";
    setTimeout(() => reject(new Error(`${stood()}: ${remedy}`)), OPEN_WITHIN_MS);
  });
}

/** @param {string} path - of the subject. @param {string} why - why it may be missing. @returns {Promise<any>} */
async function imported(path, why) {
  try {
    return await import(ORIGIN + path);
  } catch (error) {
    throw new Error(`cannot load ${path} (${why}): ${error}`);
  }
}

const isWorker = typeof document === "undefined";
/** A worker created from a text has no address. The page passes its own. */
let ORIGIN = isWorker ? "" : location.origin;

/** Long tasks of the page: start and duration, ms; the newest. @type {[number, number][]} */
const tasks = [];
const TASKS_MAX = 10_000;
if (!isWorker) {
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) {
      tasks.push([performance.timeOrigin + startTime, duration]);
      if (tasks.length > TASKS_MAX) tasks.shift();
    }
  }).observe({ type: "longtask", buffered: true });
}

/** @type {Load | undefined} */
let load;
/** @type {RoundTrips | undefined} */
let trips;
/** @type {Worker | undefined} */
let worker;
/** @type {((answer: any) => void) | undefined} */
let answered;

/** Sends the worker one question at a time. @param {object} question @returns {Promise<any>} */
async function ask(question) {
  const answer = new Promise((resolve) => (answered = resolve));
  worker?.postMessage(question);
  const { error, result } = await answer;
  if (error) throw new Error(error);
  return result;
}

const commands = {
  /** @param {LoadOptions} wanted */
  async open(wanted) {
    if (wanted.worker) {
      worker = new Worker(URL.createObjectURL(new Blob([SOURCE], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => answered?.(data);
      return ask({ open: { ...wanted, worker: false }, origin: ORIGIN });
    }
    load = new Load(wanted);
    await Promise.race([load.open(), late(load)]);
    return null;
  },

  /** Observes the live page. Must run before the script of the page. */
  watch() {
    const page = { transport: "websocket", dialect: "thalweg", topic: "", connections: 1, worker: false };
    load = new Load({ ...page, consumer: "live-page" });
    load.watch();
  },

  /** Returns whether the live page is connected. */
  standing: () => load?.standing ?? 0,

  /** Returns the results since `fromMs`, ms of the page's clock. @param {number} fromMs */
  async report(fromMs) {
    if (worker) return ask({ report: fromMs });
    return load?.report(fromMs);
  },

  async close() {
    if (worker) return ask({ close: true });
    load?.close();
    return null;
  },

  /** Returns the results of the page's main thread. @param {number} fromMs */
  page(fromMs) {
    const heap = /** @type {any} */ (performance).memory?.usedJSHeapSize ?? 0;
    const [entry] = /** @type {any[]} */ (performance.getEntriesByType("navigation"));
    const long = tasks.filter(([at, lasts]) => at + lasts >= fromMs);
    return { heap, tasks: long, protocol: entry?.nextHopProtocol ?? "" };
  },

  /** Opens a connection for round trips. @param {Talk} talk */
  async talk(talk) {
    trips = new RoundTrips(talk);
    await trips.open();
    return null;
  },

  /** Makes this number of round trips. @param {number} count */
  async roundTrips(count) {
    return trips?.run(count);
  },

  clockMs,
};

if (isWorker) {
  globalThis.onmessage = async ({ data }) => {
    ORIGIN = data.origin ?? ORIGIN;
    try {
      const result = data.open
        ? await commands.open(data.open)
        : data.close
          ? await commands.close()
          : await commands.report(data.report);
      postMessage({ result });
    } catch (error) {
      postMessage({ error: String(error) });
    }
  };
} else {
  Object.assign(globalThis, { lab: commands });
}
