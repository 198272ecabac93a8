// A room for each topic, which a connection names in its query; what is published is emitted to the room.
import { Server } from "socket.io";
import { options, pushDummies, rowsOf, sendRows, serve } from "../node/peer.js";

const { hostname, port, source, deflate } = options();

// An object, as one emits it: Socket.IO writes it as JSON once for all of the room.
const broadcast = (topic, object) => io.to(topic).emit("event", topic, object);

const server = serve((topic, line) => broadcast(topic, JSON.parse(line)));
const io = new Server(server, { perMessageDeflate: deflate });
io.on("connection", (socket) => {
  socket.join(socket.handshake.query.topic);
  const carrier = socket.request.socket;
  // As its documentation advises, so that no session keeps its first request.
  socket.conn.request = null;
  // Not its own buffer, which holds what is emitted in this turn of the loop, too.
  const isFull = () => carrier.writableLength > 0;
  const emit = (dummy) => socket.emit("dummy", dummy);
  const stop = pushDummies(source, isFull, emit);
  socket.on("echo", (data, ack) => ack(data));
  socket.on("disconnect", stop);
});
sendRows(source, broadcast, { batchOf: rowsOf });
server.listen(port, hostname);
