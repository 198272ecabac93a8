/**
 * examples/next: Next builds it, renders the newest events on the server, and passes streams on. It is skipped without
 * `npm install` there, which takes some hundred megabytes.
 */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BINARY, type Server, serve } from "./server.js";
import { skipped } from "./skipped.js";

const EXAMPLE = join(import.meta.dirname, "../../../examples/next");
const NEXT = join(EXAMPLE, "node_modules/next/dist/bin/next");

const isInstalled = existsSync(NEXT);
if (BINARY && !isInstalled) skipped("examples/next is not installed: run npm install there");

describe.runIf(BINARY && isInstalled)("the example with Next", () => {
  let server: Server;
  let next: ChildProcess;
  let origin: string;

  async function publish(id: number): Promise<void> {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ id, total: id / 2 });
    const response = await fetch(`${server.url}v1/topics/orders`, { method: "POST", headers, body });
    expect(response.status).toBe(200);
  }

  beforeAll(async () => {
    server = await serve();
    const own = { THALWEG: server.url.replace(/\/$/, ""), NODE_ENV: "production", NEXT_TELEMETRY_DISABLED: "1" };
    const env: NodeJS.ProcessEnv = { ...process.env, ...own };
    await promisify(execFile)(process.execPath, [NEXT, "build"], { cwd: EXAMPLE, env });
    const start = [NEXT, "start", "--hostname", "127.0.0.1", "--port", "0"];
    const child = spawn(process.execPath, start, { cwd: EXAMPLE, env, stdio: ["ignore", "pipe", "inherit"] });
    next = child;
    origin = await new Promise((go, fail) => {
      child.once("exit", () => fail(new Error("Next ended before it listened")));
      createInterface({ input: child.stdout }).on("line", (line) => {
        const found = /Local:\s+(http:\S+)/.exec(line)?.[1];
        if (found) go(found);
      });
    });
  });

  afterAll(async () => {
    next?.kill();
    await server?.stop();
  });

  it("renders the newest events on the server", async () => {
    await publish(1);
    await publish(2);
    const html = (await (await fetch(origin)).text()).replaceAll("<!-- -->", "");
    expect(html).toContain("<li>Order 1: 0.50</li><li>Order 2: 1.00</li>");
    expect(html).toContain("Not live");
  });

  it("passes each message of a stream on at once", async () => {
    const gone = new AbortController();
    const headers = { Accept: "application/x-ndjson", "Accept-Encoding": "gzip" };
    const response = await fetch(`${origin}/v1/topics/orders`, { headers, signal: gone.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toContain('"events":[]');
    await publish(3);
    expect((await reader?.read())?.value).toContain('"id":3');
    gone.abort();
  });
});
