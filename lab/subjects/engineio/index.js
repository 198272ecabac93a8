// The query of a connection names its topic. Each event is sent to every socket of the topic.
import { Server } from "engine.io";
import { Topics, options, pushDummies, sendRows, serve } from "../node/peer.js";

const { hostname, port, source } = options();
const topics = new Topics();

function broadcast(topic, event) {
  const text = event.toString();
  for (const socket of topics.of(topic)) socket.send(text);
}

const engine = new Server();
const server = serve(broadcast, (request, response) => engine.handleRequest(request, response));
engine.attach(server);
engine.on("connection", (socket) => {
  const { topic } = socket.request._query;
  topics.add(topic, socket);
  // Do not use the buffer of Engine.IO, which also holds the messages of this event loop iteration.
  const isFull = () => socket.request.socket.writableLength > 0;
  const stop = pushDummies(source, isFull, (dummy) => socket.send(dummy));
  socket.on("message", (data) => socket.send(data));
  socket.on("close", () => {
    topics.remove(topic, socket);
    stop();
  });
});
sendRows(source, broadcast);
server.listen(port, hostname);
