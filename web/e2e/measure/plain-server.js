/**
 * A push server as they are often written: each batch to each socket, and no look back. 100
 * rows each ms, of the same columns as the source `constant`, due times included. Says its port.
 */

import { WebSocketServer } from "ws";

const BATCH = 100;
const INTERVAL_US = 1000n;
const REST = `,1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]`;

const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
const now = () => process.hrtime.bigint() / 1000n;

server.on("listening", () => console.log(`${server.address().port}`));
server.on("connection", (socket) => {
  let number = 0;
  let due = now();
  const timer = setInterval(() => {
    for (; due <= now(); due += INTERVAL_US) {
      const rows = Array.from({ length: BATCH }, () => `[${++number},${due}${REST}`);
      socket.send(`{"topic":"rows","first":${number - BATCH + 1},"events":[${rows}]}`);
    }
  }, 1);
  socket.on("error", () => {});
  socket.on("close", () => clearInterval(timer));
});
