/** Transports whose connections the page can kill, and whose messages it counts. */

import type { Link, Transport, TransportHandlers } from "thalweg";

export interface Cuttable {
  readonly transports: readonly Transport[];
  /** Number of characters received. */
  received(): number;
  /** Closes all connections. To the session, they are broken. */
  cut(): void;
}

export function cuttable(all: readonly Transport[]): Cuttable {
  const open = new Map<Link, TransportHandlers>();
  let received = 0;
  const transports = all.map(
    (transport): Transport => ({
      ...transport,
      open(plan, handlers) {
        const counting = {
          ...handlers,
          text(text: string) {
            received += text.length;
            handlers.text(text);
          },
        };
        const inner = transport.open(plan, counting);
        const link: Link = {
          ...inner,
          close() {
            open.delete(link);
            inner.close();
          },
        };
        open.set(link, handlers);
        return link;
      },
    }),
  );
  const cut = (): void => {
    for (const [link, handlers] of [...open]) {
      link.close();
      handlers.ended({});
    }
  };
  return { transports, received: () => received, cut };
}
