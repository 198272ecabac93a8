/**
 * Experiment B with the unmodified client of SignalR beside Thalweg's SDK, in Node and in Chromium: round trips over
 * each transport, one after the other. Each start launches a new server for each client, in an order that alternates.
 *
 *     npm run round-trips -- [--starts 10] [--trips 1000] [--out FILE]
 */

import { execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { chromium } from "@playwright/test";
import { CLIENTS } from "./clients.js";
import { mean, ratio } from "./ratio.js";

const { values } = parseArgs({
  options: {
    starts: { type: "string", default: "10" },
    trips: { type: "string", default: "1000" },
    out: { type: "string" },
    thalweg: { type: "string", default: "../../target/release/thalweg" },
  },
});
const STARTS = Number(values.starts);
const TRIPS = Number(values.trips);
/** Trips before the measurement, so that the hot code is compiled. */
const WARM_UP = 200;
const TRANSPORTS = /** @type {const} */ (["WebSockets", "ServerSentEvents", "LongPolling"]);

const require = createRequire(import.meta.url);
const signalRPage = require.resolve("@microsoft/signalr/dist/browser/signalr.js");
// Both clients use the packages that SignalR's client installs for Node.
const ofSignalR = createRequire(require.resolve("@microsoft/signalr"));
globalThis.WebSocket = ofSignalR("ws");
const EventSource = ofSignalR("eventsource");
globalThis.EventSource = class extends EventSource {
  /** The package takes no `URL`. @param {string | URL} url */
  constructor(url) {
    super(String(url));
  }
};
const MODULES = { sdk: await import("thalweg"), signalr: require("@microsoft/signalr") };

// The server has a core of its own, if there is more than one.
const isPinned = cpus().length > 1;
if (isPinned) execFileSync("taskset", ["-acp", "1", String(process.pid)]);

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
    /** CPU time so far, ms: the first number of schedstat of each thread, ns. */
    cpuMs: () =>
      execFileSync("sh", ["-c", `cat /proc/${child.pid}/task/*/schedstat`], { encoding: "utf8" })
        .trim()
        .split("\n")
        .reduce((sum, line) => sum + Number(line.split(" ")[0]) / 1e6, 0),
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

const browser = await chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  // A page that a route has answered has no address, so Chromium would refuse it the loopback interface.
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-features=LocalNetworkAccessChecks"],
});

/** @param {string} client @param {string} url @param {any} transport @returns {Promise<Client>} */
async function inChromium(client, url, transport) {
  const page = await browser.newPage();
  const site = {
    "round-trips/": ["text/html", ""],
    "round-trips/clients.js": ["text/javascript", readFileSync(new URL("clients.js", import.meta.url))],
    "round-trips/signalr.js": ["text/javascript", readFileSync(signalRPage)],
    "round-trips/thalweg.js": ["text/javascript", readFileSync(require.resolve("thalweg"))],
  };
  await page.route(`${url}round-trips/**`, (route) => {
    const [contentType, body] = site[route.request().url().slice(url.length)];
    return route.fulfill({ contentType, body });
  });
  await page.goto(`${url}round-trips/`);
  await page.addScriptTag({ url: "/round-trips/signalr.js" });
  await page.evaluate(async (client) => {
    const { CLIENTS } = await import("/round-trips/clients.js");
    const module = client === "sdk" ? await import("/round-trips/thalweg.js") : globalThis.signalR;
    globalThis.open = (url, transport) => CLIENTS[client](module, url, transport);
  }, client);
  // An intercepted request takes a detour.
  await page.unrouteAll();
  await page.evaluate(
    async ([url, transport]) => {
      globalThis.client = await globalThis.open(url, transport);
    },
    [url, transport],
  );
  return {
    trips: (count) => page.evaluate((count) => globalThis.client.trips(count), count),
    close: () => page.close(),
  };
}

/** @param {typeof inNode} open @param {string} client @param {string} transport */
async function measure(open, client, transport) {
  const server = await startServer();
  const opened = await open(client, server.url, transport);
  await opened.trips(WARM_UP);
  const beginMs = server.cpuMs();
  const each = await opened.trips(TRIPS);
  const cpuMs = server.cpuMs() - beginMs;
  await opened.close();
  await server.stop();
  each.sort((a, b) => a - b);
  return {
    mean_us: 1000 * mean(each),
    p99_us: 1000 * each[Math.floor(each.length * 0.99)],
    cpu_us: (1000 * cpuMs) / TRIPS,
  };
}

const rows = [];
for (const [where, open] of /** @type {const} */ ([
  ["Node", inNode],
  ["Chromium", inChromium],
])) {
  for (const transport of TRANSPORTS) {
    const starts = [];
    for (let start = 0; start < STARTS; start++) {
      /** @type {Record<string, Awaited<ReturnType<typeof measure>>>} */
      const pair = {};
      for (const client of start % 2 ? ["signalr", "sdk"] : ["sdk", "signalr"]) {
        pair[client] = await measure(open, client, transport);
      }
      starts.push(pair);
      process.stderr.write(`\r${where} ${transport} ${start + 1}/${STARTS}      `);
    }
    const pairRatio = (/** @type {string} */ figure) =>
      ratio(starts.map(({ sdk, signalr }) => signalr[figure] / sdk[figure]));
    rows.push({ where, transport, starts, time: pairRatio("mean_us"), cpu: pairRatio("cpu_us") });
    // Kept even if the rest is interrupted.
    if (values.out) writeFileSync(values.out, `${JSON.stringify({ trips: TRIPS, rows }, null, 1)}\n`);
  }
}
await browser.close();
process.stderr.write("\r");

const shown = (/** @type {number[]} */ [middle, low, high]) =>
  `${middle.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
const us = (/** @type {any[]} */ starts, /** @type {string} */ client) =>
  `${Math.round(mean(starts.map((start) => start[client].mean_us)))} µs`;
console.log("| client in | transport | SDK | SignalR | time, SignalR ÷ SDK | CPU of the server |");
console.log("|---|---|---|---|---|---|");
for (const { where, transport, starts, time, cpu } of rows) {
  console.log(
    `| ${where} | ${transport} | ${us(starts, "sdk")} | ${us(starts, "signalr")} | ${shown(time)} | ${shown(cpu)} |`,
  );
}
