/**
 * Records the animated picture of the README: two servers share a topic, each is killed in turn, and a page loses nothing.
 *
 *     cd web && node e2e/picture/record.js          # writes docs/kill-9.png, an animated PNG
 *
 * The script needs Chromium, a NATS server and a build of Thalweg with its pages. CHROMIUM, NATS_SERVER and THALWEG_BIN name
 * other programs than the default ones.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { chromium } from "@playwright/test";
import { animated } from "./apng.js";

const inRepository = (path) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const thalweg = process.env.THALWEG_BIN ?? inRepository("target/release/thalweg");
const natsServer = process.env.NATS_SERVER ?? inRepository("target/nats/nats-server");
const folder = mkdtempSync(join(tmpdir(), "thalweg-picture-"));

const PORT = 18080;
const NATS_PORT = 18422;
const SIZE = { width: 760, height: 240 };
const FRAME_MS = 200;
const EVENT_MS = 20;

const children = new Set();
function start(program, args, stdin = "ignore") {
  const child = spawn(program, args, { stdio: [stdin, "ignore", "inherit"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

const servers = [PORT + 1, PORT + 2].map((port) => ({ port, isUp: false, isInUse: false, child: null }));

async function run(server) {
  const shared = ["--nats", `nats://127.0.0.1:${NATS_PORT}`, "--stream", "all=**,replicas=1"];
  server.child = start(thalweg, [
    "serve",
    "--listen",
    `127.0.0.1:${server.port}`,
    "--shards",
    "1",
    "--log",
    "error",
    ...shared,
  ]);
  const isReady = () =>
    fetch(`http://127.0.0.1:${server.port}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
  while (!(await isReady())) await sleep(50);
  server.isUp = true;
}

/** A load balancer. It passes each connection to the server that the page used last, or to another one if that is killed. */
const sockets = new Set();
const balancer = createServer((incoming) => {
  const server = servers.find(({ isUp, isInUse }) => isUp && isInUse) ?? servers.find(({ isUp }) => isUp);
  if (!server) return incoming.destroy();
  for (const one of servers) one.isInUse = one === server;
  const outgoing = connect(server.port, "127.0.0.1");
  for (const [socket, other] of [
    [incoming, outgoing],
    [outgoing, incoming],
  ]) {
    sockets.add(socket);
    socket.pipe(other);
    socket.on("error", () => {});
    socket.on("close", () => (sockets.delete(socket), other.destroy()));
  }
});

async function film(page) {
  const frames = [];
  let terminal = "";
  const record = async (ms) => {
    for (const end = Date.now() + ms; Date.now() < end; ) {
      const next = Date.now() + FRAME_MS;
      await page.evaluate(
        ([text, states]) => globalThis.tell(text, states),
        [terminal, servers.map(({ isUp, isInUse }) => ({ isUp, isInUse }))],
      );
      frames.push({ png: await page.screenshot({ clip: { x: 0, y: 0, ...SIZE } }), at: Date.now() });
      await sleep(Math.max(0, next - Date.now()));
    }
  };
  const killAndRestart = async () => {
    const server = servers.find(({ isInUse }) => isInUse);
    const name = `server ${servers.indexOf(server) + 1}`;
    const { pid } = server.child;
    terminal = `$ kill -9 ${pid}                    # ${name}, which this page uses`;
    process.kill(pid, "SIGKILL");
    await once(server.child, "exit");
    Object.assign(server, { isUp: false, isInUse: false });
    await record(3_500);
    terminal += `\n$ thalweg serve …                  # starts ${name} again`;
    const started = run(server);
    await record(2_500);
    await started;
  };
  terminal = "$ seq … | thalweg pub …/v1/topics/numbers      # 50 events a second";
  await record(2_000);
  await killAndRestart();
  await page.evaluate(() => globalThis.session.use("sse"));
  await record(1_000);
  await killAndRestart();
  await record(1_500);
  return frames;
}

let browser;
try {
  start(natsServer, [
    "--jetstream",
    "--store_dir",
    folder,
    "--addr",
    "127.0.0.1",
    "--port",
    `${NATS_PORT}`,
    "--log",
    join(folder, "log"),
  ]);
  await sleep(1_000);
  await Promise.all(servers.map(run));
  balancer.listen(PORT, "127.0.0.1");
  const origin = `http://127.0.0.1:${PORT}`;

  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // A page that Playwright fulfils has no address space, and Chromium blocks its WebSockets to this machine.
    args: ["--no-sandbox", "--disable-features=LocalNetworkAccessChecks"],
  });
  const page = await browser.newPage({ viewport: SIZE });
  const html = readFileSync(new URL("page.html", import.meta.url), "utf8");
  await page.route(`${origin}/picture`, (route) => route.fulfill({ contentType: "text/html", body: html }));
  await page.goto(`${origin}/picture`);
  await page.waitForFunction(() => globalThis.state === "open");

  const publisher = start(thalweg, ["pub", `${origin}/v1/topics/numbers`], "pipe");
  let number = 0;
  const timer = setInterval(() => publisher.stdin.write(`${++number}\n`), EVENT_MS);
  const frames = await film(page);
  clearInterval(timer);

  await page.waitForFunction((all) => document.getElementById("received").textContent === `${all}`, number);
  const lost = await page.textContent("#lost");
  const received = await page.textContent("#received");
  if (lost !== "0") throw new Error(`the page lost ${lost} events`);
  writeFileSync(inRepository("docs/kill-9.png"), animated(frames));
  console.info(`published ${number}, received ${received}, lost ${lost}, ${frames.length} frames`);
} finally {
  await browser?.close();
  balancer.close();
  for (const socket of sockets) socket.destroy();
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
}
