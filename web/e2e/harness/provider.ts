/** An HTTP API with documents, without any push. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface Provider {
  readonly origin: string;
  set(path: string, document: unknown): void;
  requests(): number;
  close(): Promise<void>;
}

/** Starts a provider on a free port. A path without a document gets 404. */
export async function provider(): Promise<Provider> {
  const documents = new Map<string, string>();
  let requests = 0;
  const server = createServer(({ url = "" }, response) => {
    requests += 1;
    const body = documents.get(url.slice(1));
    response.writeHead(body === undefined ? 404 : 200, { "Content-Type": "application/json" }).end(body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    set: (path, document) => void documents.set(path, JSON.stringify(document)),
    requests: () => requests,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}
