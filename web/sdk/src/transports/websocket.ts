/** WebSocket: both ways over one connection; the only transport with windows. */

import { reconnects } from "../wire.js";
import { type Transport, url } from "./transport.js";

export const webSocket: Transport = {
  name: "websocket",
  isTwoWay: true,
  hasHeaders: false,
  // A page's WebSocket has none; a window with acks stands in for it.
  hasBackpressure: false,
  isSupported: () => !!globalThis.WebSocket,
  open(plan, handlers) {
    const to = url({ ...plan, topics: [], terms: {} });
    to.protocol = to.protocol.replace("http", "ws");
    const socket = new WebSocket(to);
    socket.onopen = () => handlers.opened();
    socket.onmessage = ({ data }) => handlers.text(String(data));
    // A close by the server comes without it. Node's own WebSocket tells nothing else where
    // there is no server; `ws` ends the process if nobody listens to its errors.
    socket.onerror = () => handlers.ended({});
    socket.onclose = ({ code, reason }) => handlers.ended({ close: { code, reason, reconnect: reconnects(code) } });
    return {
      // A browser complains of what is sent while the socket closes. Its end is told by `ended`.
      send: (text) => socket.readyState === socket.OPEN && socket.send(text),
      close: () => socket.close(),
    };
  },
};
