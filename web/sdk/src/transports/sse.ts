/** Server-Sent Events, over the browser's own EventSource. */

import { type Transport, url } from "./transport.js";

export const sse: Transport = {
  name: "sse",
  isTwoWay: false,
  hasHeaders: false,
  hasBackpressure: false,
  isSupported: () => !!globalThis.EventSource,
  open(plan, handlers) {
    const source = new EventSource(url(plan, { transport: "sse" }));
    const receive = ({ data }: MessageEvent<string>): void => handlers.text(data);
    source.onmessage = receive;
    for (const kind of ["gap", "end", "heartbeat", "close"]) source.addEventListener(kind, receive);
    // An open EventSource would reconnect on its own, with a used ticket and without the session's timeouts.
    source.onerror = () => handlers.ended({});
    return { close: () => source.close() };
  },
};
