// A topic is named in the query; an event is an object, which each spark of the topic is written.
import Primus from "primus";
import { Topics, options, pushDummies, sendRows, serve } from "../node/peer.js";

const { hostname, port, source } = options();
const topics = new Topics();

function broadcast(topic, event) {
  const object = JSON.parse(event);
  for (const spark of topics.of(topic)) spark.write(object);
}

const server = serve(broadcast);
const primus = new Primus(server, { transformer: "websockets" });
primus.on("connection", (spark) => {
  const { topic } = spark.query;
  topics.add(topic, spark);
  const stop = pushDummies(source, () => false, (dummy) => spark.write(dummy));
  spark.on("data", (data) => spark.write(data));
  spark.on("end", () => {
    topics.remove(topic, spark);
    stop();
  });
});
sendRows(source, broadcast);
server.listen(port, hostname);
