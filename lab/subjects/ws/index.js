// The path names the topic. Each event is sent to every client of the topic, as in the documentation of ws.
import { WebSocket, WebSocketServer } from "ws";
import { Topics, options, pushDummies, sendRows, serve } from "../node/peer.js";

const { hostname, port, source, cork, deflate } = options();
const topics = new Topics();
const corked = new Set();

function broadcast(topic, event) {
  // Send bytes: a string would be encoded again for each client.
  const data = typeof event === "string" ? Buffer.from(event) : event;
  for (const client of topics.of(topic)) {
    if (client.readyState === WebSocket.OPEN) {
      if (cork) holdBack(client._socket);
      client.send(data, { binary: false });
    }
  }
}

/** Holds back the messages of this event loop iteration to a client, and sends them in one write at its end. */
function holdBack(socket) {
  if (corked.size === 0) setImmediate(uncork);
  if (!corked.has(socket)) {
    corked.add(socket);
    socket.cork();
  }
}

function uncork() {
  for (const socket of corked) socket.uncork();
  corked.clear();
}

const server = serve(broadcast);
new WebSocketServer({ server, perMessageDeflate: deflate }).on("connection", (client, request) => {
  const topic = request.url.slice(1);
  topics.add(topic, client);
  const stop = pushDummies(source, () => client.bufferedAmount > 0, (dummy) => client.send(dummy));
  client.on("message", (data, isBinary) => client.send(data, { binary: isBinary }));
  client.on("error", () => client.terminate());
  client.on("close", () => {
    topics.remove(topic, client);
    stop();
  });
});
sendRows(source, broadcast);
server.listen(port, hostname);
