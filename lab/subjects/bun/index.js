// Bun's own server. Its WebSockets subscribe to Bun's topics; Server-Sent Events use Bun's direct streams.
import { dlopen, ptr } from "bun:ffi";
import { Lines, Topics, options, pushDummies, sendRows } from "../node/peer.js";

const { hostname, port, source, deflate } = options();
const streams = new Topics();
const clock = dlopen("libc.so.6", { clock_gettime: { args: ["i32", "ptr"], returns: "i32" } });
const time = new BigInt64Array(2);
const encoder = new TextEncoder();

function broadcast(topic, event) {
  const text = event.toString();
  server.publish(topic, text, deflate);
  const subscribers = streams.of(topic);
  if (subscribers.size > 0) {
    const message = encoder.encode(`data: ${text}\n\n`);
    for (const controller of subscribers) {
      controller.write(message);
      controller.flush();
    }
  }
}

function subscribe(topic, request) {
  const stream = new ReadableStream({
    type: "direct",
    pull(controller) {
      streams.add(topic, controller);
      // The head is sent with the first bytes, so send a comment.
      controller.write(":\n\n");
      controller.flush();
      return new Promise((resolve) => {
        request.signal.addEventListener("abort", () => {
          streams.remove(topic, controller);
          resolve();
        });
      });
    },
  });
  return new Response(stream, { headers: { "Content-Type": "text/event-stream" } });
}

async function publish(topic, request) {
  const lines = new Lines((line) => broadcast(topic, line));
  for await (const bytes of request.body) lines.push(Buffer.from(bytes));
  return Response.json({ count: lines.count });
}

const server = Bun.serve({
  hostname,
  port,
  // Allow requests that are silent for a long time, such as streams of events.
  idleTimeout: 0,
  // Allow publish requests that do not end.
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  fetch(request, server) {
    const topic = new URL(request.url).pathname.slice(1);
    if (topic === "healthz") return new Response("ok\n");
    if (request.method === "POST") return publish(topic, request);
    if (server.upgrade(request, { data: { topic } })) return;
    // A browser also requests an icon on its own.
    if (request.headers.get("accept") !== "text/event-stream") return new Response(null, { status: 404 });
    return subscribe(topic, request);
  },
  websocket: {
    perMessageDeflate: deflate,
    open(socket) {
      socket.subscribe(socket.data.topic);
      const isFull = () => socket.getBufferedAmount() > 0;
      socket.data.stop = pushDummies(source, isFull, (dummy) => socket.send(dummy));
    },
    message(socket, message) {
      socket.send(message);
    },
    close(socket) {
      socket.data.stop();
    },
  },
});
sendRows(source, broadcast, { monotonicUs });

/** Returns `CLOCK_MONOTONIC`, the clock of the lab's schedules, µs. Bun's own clocks begin with its process. */
function monotonicUs() {
  clock.symbols.clock_gettime(1, ptr(time));
  return Number(time[0]) * 1e6 + Number(time[1]) / 1e3;
}
