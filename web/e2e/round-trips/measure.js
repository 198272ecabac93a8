/**
 * Experiment B with Microsoft's client of SignalR and with Thalweg's SDK, in Node and in Chromium: round trips over each
 * transport, one after another. Both clients talk to Thalweg: the SDK with Thalweg's protocol, Microsoft's client with
 * Thalweg's hub. A slow hub counts against Microsoft's client, and nothing here is about ASP.NET. Each start launches a
 * new server for each client, in an order that changes, and measures the SDK twice.
 *
 * Differences in Node that come from the packages as shipped:
 * - Microsoft's client wraps `fetch` with `fetch-cookie`, and looks into its cookie jar at each request; the SDK uses
 *   only `fetch`. Both use the same packages for WebSockets (`ws`) and SSE (`eventsource`).
 * - Over SSE and long polling Microsoft's client queues its messages: the next `POST` waits for the answer to the
 *   previous one. The SDK does not wait. The same is true in Chromium.
 *
 *     npm run round-trips -- [--starts 10] [--trips 1000] [--out FILE]
 */

import { execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, release } from "node:os";
import { parseArgs } from "node:util";
import { openPage } from "./chromium.js";
import { CLIENTS } from "./clients.js";
import { mean, ratio } from "./ratio.js";

const { values } = parseArgs({
  options: {
    starts: { type: "string", default: "10" },
    trips: { type: "string", default: "1000" },
    out: { type: "string" },
    thalweg: { type: "string", default: "../target/release/thalweg" },
  },
});
const STARTS = Number(values.starts);
const TRIPS = Number(values.trips);
/** Trips before the measurement, so that the hot code is compiled. */
const WARM_UP = 200;
const TRANSPORTS = /** @type {const} */ (["WebSockets", "ServerSentEvents", "LongPolling"]);

const require = createRequire(import.meta.url);
const signalRPage = require.resolve("@microsoft/signalr/dist/browser/signalr.js");
// Both clients use the packages that Microsoft's client installs for Node.
const ofSignalR = createRequire(require.resolve("@microsoft/signalr"));
globalThis.WebSocket = ofSignalR("ws");
const EventSource = ofSignalR("eventsource");
globalThis.EventSource = class extends EventSource {
  /** The package takes no `URL`. @param {string | URL} url */
  constructor(url) {
    super(String(url));
  }
};
const sdk = await import("thalweg");
const MODULES = { sdk, again: sdk, signalr: require("@microsoft/signalr") };

/** A run is broken if its trips take longer. */
const TRIPS_MS_MAX = 120_000;
/** A server that waited for its core for a larger share of the time was disturbed. */
const WAITED_SHARE_MAX = 0.1;

// The server has a core of its own, if there is more than one. This process does nothing while Chromium is measured.
const cores = cpus().length;
const isPinned = cores > 1;
if (isPinned) execFileSync("taskset", ["-acp", "1", String(process.pid)]);
const underBrowser = isPinned ? ["taskset", "-c", cores > 2 ? `2-${cores - 1}` : "1"] : [];

async function startServer() {
  const args = ["serve", "--listen", "127.0.0.1:0", "--shards", "1"];
  args.push("--source", "bench/0=runner,ack=bench/0/acks", "--set", 'signalr.paths=["/hub"]');
  const [program, ...rest] = isPinned ? ["taskset", "-c", "0", values.thalweg, ...args] : [values.thalweg, ...args];
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  const url = await new Promise((resolve, reject) => {
    const read = (/** @type {Buffer} */ text) => {
      log += text;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log);
      if (found) resolve(`${found[0]}/`);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
  });
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  return {
    url,
    /** Returns the time that all threads ran on a core, and waited for one, ms: the first two numbers of schedstat, ns. */
    times() {
      const stat = execFileSync("sh", ["-c", `cat /proc/${child.pid}/task/*/schedstat`], { encoding: "utf8" });
      const lines = stat
        .trim()
        .split("\n")
        .map((line) => line.split(" ").map((ns) => Number(ns) / 1e6));
      const sum = (/** @type {number} */ column) => lines.reduce((sum, line) => sum + (line[column] ?? 0), 0);
      return { cpuMs: sum(0), waitedMs: sum(1) };
    },
    stop: () => {
      process.off("exit", killAtExit);
      child.removeAllListeners("exit");
      const ended = new Promise((resolve) => child.on("exit", resolve));
      child.kill("SIGKILL");
      return ended;
    },
  };
}

/** @typedef {{ trips(count: number): Promise<number[]>, close(): unknown }} Client */

/** @param {string} client @param {string} url @param {any} transport @returns {Promise<Client>} */
const inNode = (client, url, transport) => CLIENTS[client](MODULES[client], url, transport);

/** @param {string} client @param {string} url @param {any} transport @returns {Promise<Client>} */
async function inChromium(client, url, transport) {
  const page = await openPage(`${url}healthz`, underBrowser);
  const text = (/** @type {string | URL} */ file) => readFileSync(file, "utf8");
  const imported = (/** @type {string} */ file) =>
    `import(URL.createObjectURL(new Blob([${JSON.stringify(file)}], { type: "text/javascript" })))`;
  if (client === "signalr") await page.evaluate(`${text(signalRPage)};0`);
  const module = client === "signalr" ? "globalThis.signalR" : `await ${imported(text(require.resolve("thalweg")))}`;
  const clients = imported(text(new URL("clients.js", import.meta.url)));
  const args = `${module}, ${JSON.stringify(url)}, ${JSON.stringify(transport)}`;
  await page.evaluate(
    `(async () => { globalThis.client = await (await ${clients}).CLIENTS[${JSON.stringify(client)}](${args}); })()`,
  );
  return { trips: (count) => page.evaluate(`globalThis.client.trips(${count})`), close: page.close };
}

/** @param {Promise<number[]>} trips @param {number} count */
async function complete(trips, count) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${count} round trips did not end`)), TRIPS_MS_MAX);
  });
  const each = /** @type {number[]} */ (await Promise.race([trips, late]));
  clearTimeout(timer);
  if (each.length !== count) throw new Error(`${each.length} of ${count} round trips`);
  return each;
}

/** @param {typeof inNode} open @param {string} client @param {string} transport */
async function measure(open, client, transport) {
  const server = await startServer();
  const opened = await open(client, server.url, transport);
  await complete(opened.trips(WARM_UP), WARM_UP);
  const [begin, beginMs] = [server.times(), performance.now()];
  const each = await complete(opened.trips(TRIPS), TRIPS);
  const [end, endMs] = [server.times(), performance.now()];
  await opened.close();
  await server.stop();
  each.sort((a, b) => a - b);
  return {
    mean_us: 1000 * mean(each),
    p99_us: 1000 * each[Math.floor(each.length * 0.99)],
    cpu_us: (1000 * (end.cpuMs - begin.cpuMs)) / TRIPS,
    waited: (end.waitedMs - begin.waitedMs) / (endMs - beginMs),
  };
}

const MEASURED = {
  thalweg: execFileSync(values.thalweg, ["--version"], { encoding: "utf8" }).trim(),
  signalr: require("@microsoft/signalr").VERSION,
  node: process.version,
  machine: `${cpus()[0]?.model}, ${cores} cores, Linux ${release()}`,
  begun: new Date().toISOString(),
  trips: TRIPS,
};
const NAMES = Object.keys(CLIENTS);
const cells = [];
for (const [where, open] of /** @type {const} */ ([
  ["Node", inNode],
  ["Chromium", inChromium],
])) {
  for (const transport of TRANSPORTS) {
    const starts = [];
    for (let start = 0; start < STARTS; start++) {
      /** @type {Record<string, Awaited<ReturnType<typeof measure>>>} */
      const measured = {};
      // Six starts use each order once.
      const first = start % NAMES.length;
      const order = [...NAMES.slice(first), ...NAMES.slice(0, first)];
      for (const client of start % 2 ? order.reverse() : order) {
        measured[client] = await measure(open, client, transport);
      }
      starts.push(measured);
      process.stderr.write(`\r${where} ${transport} ${start + 1}/${STARTS}      `);
    }
    cells.push({ where, transport, starts });
    // Write after each cell, so that an interruption loses no finished cell.
    if (values.out) writeFileSync(values.out, `${JSON.stringify({ ...MEASURED, cells }, null, 1)}\n`);
  }
}
process.stderr.write("\r");

const shown = (/** @type {number[]} */ [middle, low, high]) =>
  `${middle.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
const us = (/** @type {any[]} */ starts, /** @type {string} */ client) =>
  `${Math.round(mean(starts.map((start) => start[client].mean_us)))} µs`;
const TITLES = { again: "the SDK again (noise)", signalr: "Thalweg's hub with Microsoft's client" };
console.log("| client in | transport | SDK | compared | its time | time ÷ SDK's | CPU of the server ÷ SDK's |");
console.log("|---|---|---|---|---|---|---|");
for (const { where, transport, starts } of cells) {
  for (const client of NAMES.slice(1)) {
    const toSdk = (/** @type {string} */ figure) =>
      shown(ratio(starts.map((start) => start[client][figure] / start.sdk[figure])));
    const figures = [us(starts, "sdk"), TITLES[client], us(starts, client), toSdk("mean_us"), toSdk("cpu_us")];
    console.log(`| ${[where, transport, ...figures].join(" | ")} |`);
  }
}
const intervals = cells.length * (NAMES.length - 1) * 2;
console.log(
  `\nEach interval by itself contains its ratio in 95 of 100 cases. The intervals are not corrected for their number, ${intervals}: ` +
    `without any difference, ${(intervals * 0.05).toFixed(1)} of them would exclude 1 on average.`,
);
const disturbed = cells
  .flatMap(({ starts }) => starts.flatMap((start) => Object.values(start)))
  .filter(({ waited }) => waited > WAITED_SHARE_MAX).length;
if (disturbed)
  console.log(`In ${disturbed} measurements the server waited for its core: repeat them on a quiet machine.`);
