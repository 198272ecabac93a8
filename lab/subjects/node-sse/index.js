// Server-Sent Events with Node alone. The path names the topic, and each event is written to every response of the topic.
import { Topics, options, sendRows, serve } from "../node/peer.js";

const { hostname, port, source } = options();
const topics = new Topics();

function broadcast(topic, event) {
  const message = Buffer.from(`data: ${event}\n\n`);
  for (const response of topics.of(topic)) response.write(message);
}

const server = serve(broadcast, (request, response) => {
  // A browser also requests an icon on its own.
  if (request.headers.accept !== "text/event-stream") return response.writeHead(404).end();
  const topic = request.url.slice(1);
  topics.add(topic, response);
  response.on("close", () => topics.remove(topic, response));
  response.on("error", () => {});
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
  response.flushHeaders();
});
sendRows(source, broadcast);
server.listen(port, hostname);
