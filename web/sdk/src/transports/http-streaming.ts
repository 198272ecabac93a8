/** HTTP streaming: a `fetch` whose body does not end. Fast, and with backpressure. */

import { requests } from "./lines.js";
import type { Transport } from "./transport.js";

export const httpStreaming: Transport = {
  name: "http-streaming",
  isTwoWay: false,
  hasHeaders: true,
  hasBackpressure: true,
  isSupported: () => true,
  open: (plan, handlers) => requests(plan, handlers, (number) => (number ? null : { transport: "http-streaming" })),
};
