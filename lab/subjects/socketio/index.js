// A room for each topic, which a connection names in its query; what is published is emitted to
// the room.
import { Server } from "socket.io";
import { options, pushDummies, sendRows, serve } from "../node/peer.js";

const { hostname, port, source } = options();

// An object, as one emits it: Socket.IO writes it as JSON once for all of the room.
const broadcast = (topic, event) => io.to(topic).emit("event", topic, JSON.parse(event));

const server = serve(broadcast);
const io = new Server(server);
io.on("connection", (socket) => {
  socket.join(socket.handshake.query.topic);
  const { conn } = socket;
  const emit = (dummy) => socket.emit("dummy", dummy);
  const stop = pushDummies(source, () => conn.writeBuffer.length > 0, emit);
  socket.on("echo", (data, ack) => ack(data));
  socket.on("disconnect", stop);
});
sendRows(source, broadcast);
server.listen(port, hostname);
