/** Long polling: one request after the other, each where the last answer ended. */

import { requests } from "./lines.js";
import type { Transport } from "./transport.js";

/** How long the server may wait for something to say; proxies cut after 30 s and more. */
const WAIT = "25s";

export const longPolling: Transport = {
  name: "long-polling",
  isTwoWay: false,
  hasHeaders: true,
  hasBackpressure: true,
  isSupported: () => true,
  // The first answer comes at once and says where each topic stands. Every answer says
  // something: one that does not is not the server's.
  open: (plan, handlers) => requests(plan, handlers, (number) => ({ wait: number ? WAIT : "0s" })),
};
