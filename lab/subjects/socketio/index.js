// Each topic has a room. The query of a connection names its topic, and each event is emitted to the room.
import { Server } from "socket.io";
import { options, pushDummies, rowsOf, sendRows, serve } from "../node/peer.js";

const { hostname, port, source, deflate } = options();

// Emit an object, as applications do: Socket.IO writes it as JSON once for the whole room.
const broadcast = (topic, object) => io.to(topic).emit("event", topic, object);

const server = serve((topic, line) => broadcast(topic, JSON.parse(line)));
const io = new Server(server, { perMessageDeflate: deflate });
io.on("connection", (socket) => {
  socket.join(socket.handshake.query.topic);
  const carrier = socket.request.socket;
  // As the documentation of Socket.IO recommends, so that no session keeps its first request.
  socket.conn.request = null;
  // Do not use the buffer of Engine.IO, which also holds the messages of this event loop iteration.
  const isFull = () => carrier.writableLength > 0;
  const emit = (dummy) => socket.emit("dummy", dummy);
  const stop = pushDummies(source, isFull, emit);
  socket.on("echo", (data, ack) => ack(data));
  socket.on("disconnect", stop);
});
sendRows(source, broadcast, { batchOf: rowsOf });
server.listen(port, hostname);
