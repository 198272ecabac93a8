// Events to rooms, as a Socket.IO user would write it: a room per topic. What is
// posted to /publish/TOPIC, an event a line, is emitted to that room at once.
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { Server } from "socket.io";

const { values } = parseArgs({ options: { listen: { type: "string", default: "127.0.0.1:8080" } } });
const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(values.listen);

// A publish request goes on for as long as the lab measures, so whole requests have no
// deadline; heads keep theirs, which Node would otherwise give up with it.
const server = createServer({ requestTimeout: 0, headersTimeout: 60_000 }, (request, response) => {
  const [, action, topic] = /^\/(\w+)\/?(.*)$/.exec(request.url) ?? [];
  if (request.method === "GET" && action === "healthz") {
    response.end("ok\n");
  } else if (request.method === "POST" && action === "publish" && topic) {
    publish(topic, request, response);
  } else {
    response.writeHead(404).end();
  }
});

const io = new Server(server);
io.on("connection", (socket) => {
  socket.on("subscribe", (topics, ack) => {
    socket.join(topics);
    ack();
  });
  socket.on("echo", (data, ack) => ack(data));
});

function publish(topic, request, response) {
  let count = 0;
  let rest = "";
  const emit = (line) => {
    if (line !== "") {
      io.to(topic).emit("event", topic, JSON.parse(line));
      count += 1;
    }
  };
  request.setEncoding("utf8");
  request.on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    lines.forEach(emit);
  });
  request.on("end", () => {
    emit(rest);
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ count }));
  });
}

server.listen({ host, port });
