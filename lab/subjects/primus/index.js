// The query of a connection names its topic. Each event is an object, and is written to every spark of the topic.
import Primus from "primus";
import { Topics, options, pushDummies, rowsOf, sendRows, serve } from "../node/peer.js";

const { hostname, port, source } = options();
const topics = new Topics();

function broadcast(topic, object) {
  for (const spark of topics.of(topic)) spark.write(object);
}

const server = serve((topic, line) => broadcast(topic, JSON.parse(line)));
const primus = new Primus(server, { transformer: "websockets" });
primus.on("connection", (spark) => {
  const { topic } = spark.query;
  topics.add(topic, spark);
  const isFull = () => spark.request.socket.writableLength > 0;
  const stop = pushDummies(source, isFull, (dummy) => spark.write(dummy));
  spark.on("data", (data) => spark.write(data));
  spark.on("end", () => {
    topics.remove(topic, spark);
    stop();
  });
});
sendRows(source, broadcast, { batchOf: rowsOf });
server.listen(port, hostname);
