/** WebSockets that share an HTTP/2 connection (RFC 8441), from a page and from Node. */

import { once } from "node:events";
import { connect } from "node:http2";
import { expect, test } from "../harness/test.js";

test.use({ args: ["--tls-self-signed"], ignoreHTTPSErrors: true });

test("a page's WebSocket is a stream of the page's connection", async ({ browser, server }) => {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  await page.goto(`https://${server.address}/healthz`);
  const seen = await page.evaluate(async () => {
    const socket = new WebSocket(`wss://${location.host}/v1/topics/numbers`, "thalweg.v1");
    const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener("close", resolve));
    const waiting: ((message: unknown) => void)[] = [];
    const early: unknown[] = [];
    socket.addEventListener("message", ({ data }) => {
      const message: unknown = JSON.parse(String(data));
      const wanted = waiting.shift();
      if (wanted) wanted(message);
      else early.push(message);
    });
    const next = (): Promise<unknown> =>
      early.length ? Promise.resolve(early.shift()) : new Promise((resolve) => waiting.push(resolve));
    const confirmed = await next();
    const metrics = await (await fetch("/metrics")).text();
    const gauge = (name: string): string | undefined => new RegExp(`^${name}\\S* (.*)$`, "m").exec(metrics)?.[1];
    const counts = [gauge("thalweg_connections"), gauge("thalweg_piped_connections")];
    socket.send(JSON.stringify({ command: "echo", id: 1, data: "x".repeat(10_000) }));
    const echoed = await next();
    const headers = { "Content-Type": "application/json" };
    await fetch("/v1/topics/numbers", { method: "POST", headers, body: "7" });
    const event = await next();
    socket.close(1000);
    const { code, wasClean } = await closed;
    return { confirmed, counts, echoed, event, code, wasClean, protocol: socket.protocol };
  });
  expect(seen).toMatchObject({
    confirmed: { topic: "numbers", events: [] },
    counts: ["1", "1"],
    echoed: { answer: { id: 1, data: "x".repeat(10_000) } },
    event: { topic: "numbers", first: 1, events: [7] },
    code: 1000,
    wasClean: true,
    protocol: "thalweg.v1",
  });
  await context.close();
});

test("Node opens a WebSocket over its HTTP/2 session", async ({ server }) => {
  const session = connect(`https://${server.address}`, { rejectUnauthorized: false });
  const [settings] = await once(session, "remoteSettings");
  expect(settings).toMatchObject({ enableConnectProtocol: true });
  const stream = session.request({
    ":method": "CONNECT",
    ":protocol": "websocket",
    ":path": "/v1/topics",
    "sec-websocket-version": "13",
  });
  const [headers] = await once(stream, "response");
  expect(headers).toMatchObject({ ":status": 200 });
  // A ping and a close with 1000, masked with zeros.
  stream.write(Buffer.from([0x89, 0x82, 0, 0, 0, 0, 104, 105]));
  const [pong] = await once(stream, "data");
  expect([...pong]).toEqual([0x8a, 2, 104, 105]);
  stream.end(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 3, 232]));
  const [close] = await once(stream, "data");
  expect([...close.subarray(0, 4)]).toEqual([0x88, close.length - 2, 3, 232]);
  await once(stream, "close");
  expect(stream.rstCode).toBe(0);
  session.close();
  await once(session, "close");
});
