/** WebSocket: both directions over one connection. The only transport with windows. */

import { reconnects } from "../wire.js";
import { type Transport, url } from "./transport.js";

export const webSocket: Transport = {
  name: "websocket",
  isTwoWay: true,
  hasHeaders: false,
  // A browser's WebSocket has no backpressure. A window with acks replaces it.
  hasBackpressure: false,
  isSupported: () => !!globalThis.WebSocket,
  open(plan, handlers) {
    const to = url({ ...plan, topics: [], terms: {} });
    to.protocol = to.protocol.replace("http", "ws");
    const socket = new WebSocket(to);
    socket.onopen = () => handlers.opened();
    socket.onmessage = ({ data }) => handlers.text(String(data));
    // Without a server, Node's own WebSocket reports only an error, and `ws` ends the process if the error has no
    // listener. A close by the server is not an error.
    socket.onerror = () => handlers.ended({});
    socket.onclose = ({ code, reason }) => handlers.ended({ close: { code, reason, reconnect: reconnects(code) } });
    return {
      // Browsers log an error if data is sent while the socket closes. `ended` reports the close.
      send: (text) => socket.readyState === socket.OPEN && socket.send(text),
      close: () => socket.close(),
    };
  },
};
