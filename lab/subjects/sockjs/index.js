// The first message of a connection names its topic. Each event is written to every connection of the topic.
import sockjs from "sockjs";
import { Topics, options, pushDummies, sendRows, serve } from "../node/peer.js";

const { hostname, port, source } = options();
const topics = new Topics();

function broadcast(topic, event) {
  const text = event.toString();
  for (const connection of topics.of(topic)) connection.write(text);
}

const server = serve(broadcast);
const echo = sockjs.createServer({ prefix: "/sockjs", log: () => {} });
echo.on("connection", (connection) => {
  connection.once("data", (topic) => {
    topics.add(topic, connection);
    connection.write("subscribed");
    // SockJS reports neither the number of waiting bytes nor when they are sent; the socket below does.
    const isFull = () => connection._session?.recv?.connection.writableLength > 0;
    const stop = pushDummies(source, isFull, (dummy) => connection.write(dummy));
    connection.on("data", (text) => connection.write(text));
    connection.on("close", () => {
      topics.remove(topic, connection);
      stop();
    });
  });
});
echo.installHandlers(server);
sendRows(source, broadcast);
server.listen(port, hostname);
