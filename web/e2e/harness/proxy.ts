/** A proxy, which also serves the tests' pages (`site`) under its origin, and treats requests by a rule. */

import { EventEmitter, once } from "node:events";
import {
  request as ask,
  createServer,
  type IncomingMessage,
  type RequestOptions,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex, Transform } from "node:stream";
import { type SeenRequest, seenRequest } from "./seen-request.js";
import { file } from "./site.js";
import { PASS, type Treatment, way } from "./treatments.js";

export type Treat = (asked: SeenRequest) => Treatment;

export interface Network {
  readonly origin: string;
  readonly asked: readonly SeenRequest[];
  treat(treat: Treat): void;
  /** Waits for the first matching request from number `from` on. */
  seen(test: (asked: SeenRequest) => boolean, from?: number): Promise<SeenRequest>;
  /** Blocks all open connections without closing them. */
  freeze(): void;
  /** Closes all connections abruptly. */
  cut(): void;
  close(): Promise<void>;
}

/** Starts a proxy in front of the server at `upstream` (`host:port`). */
export async function proxy(upstream: string, treat: Treat = () => PASS): Promise<Network> {
  const seen: SeenRequest[] = [];
  const events = new EventEmitter();
  const sockets = new Set<Socket>();
  const open: Open = new Set();
  const note = (request: IncomingMessage): Treatment => {
    const passing = seenRequest(request);
    seen.push(passing);
    events.emit("asked");
    return treat(passing);
  };
  const server = createServer((request, response) => {
    const page = file(request.url ?? "/");
    if (page) response.writeHead(page.status, page.headers).end(page.body);
    else pass({ upstream, open, request, treatment: note(request) }, response);
  });
  server.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
    upgrade({ upstream, open, request, treatment: note(request) }, socket);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    origin: `http://127.0.0.1:${port}`,
    asked: seen,
    treat: (next) => {
      treat = next;
    },
    seen: async (test, from = 0) => {
      for (;;) {
        const found = seen.slice(from).find(test);
        if (found) return found;
        await once(events, "asked");
      }
    },
    freeze: () => {
      for (const through of open) through.unpipe();
    },
    cut,
    close: async () => {
      const closed = once(server, "close");
      server.close();
      cut();
      await closed;
    },
  };
}

/** The pipelines of all responses in flight. */
type Open = Set<Transform>;

interface Passage {
  readonly upstream: string;
  readonly open: Open;
  readonly request: IncomingMessage;
  readonly treatment: Treatment;
}

/** Returns the options of the forwarded request, on a connection of its own. */
function onward(upstream: string, { method, url, rawHeaders }: IncomingMessage): RequestOptions {
  const [host = "", port = ""] = upstream.split(":");
  return {
    host,
    port,
    agent: false,
    ...(method && { method }),
    ...(url && { path: url }),
    headers: pairs(rawHeaders),
  };
}

function pairs(raw: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at < raw.length; at += 2) headers[raw[at] as string] = raw[at + 1] as string;
  return headers;
}

function pass({ upstream, open, request, treatment }: Passage, response: ServerResponse): void {
  const { socket } = request;
  if (treatment.by === "hang") return;
  if (treatment.by === "reset") return void socket.resetAndDestroy();
  if (treatment.by === "refuse") {
    return void response.writeHead(treatment.status, { "content-type": "text/html" }).end("<h1>No.</h1>");
  }
  const going = ask(onward(upstream, request), (answer) => {
    const through = way(treatment);
    open.add(through);
    through.on("close", () => open.delete(through));
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, pairs(hopless(answer.rawHeaders)));
    if (treatment.by !== "hold") response.flushHeaders();
    answer.pipe(through).pipe(response);
    const broken = (): void => void socket.destroy();
    through.on("error", broken);
    answer.on("error", broken);
    answer.on("aborted", broken);
  });
  going.on("error", () => socket.destroy());
  response.on("close", () => going.destroy());
  request.pipe(going);
}

/** Removes hop-by-hop headers. */
function hopless(raw: readonly string[]): string[] {
  return raw.filter((_, at) => {
    const name = (raw[at - (at % 2)] as string).toLowerCase();
    return name !== "connection" && name !== "transfer-encoding" && name !== "keep-alive";
  });
}

function upgrade({ upstream, open, request, treatment }: Passage, socket: Duplex): void {
  if (treatment.by === "hang") return;
  if (treatment.by === "reset") return void (socket as Socket).resetAndDestroy();
  if (treatment.by === "refuse") {
    return void socket.end(`HTTP/1.1 ${treatment.status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
  }
  const going = ask(onward(upstream, request));
  const broken = (): void => {
    socket.destroy();
    going.destroy();
  };
  going.on("error", broken);
  going.on("response", broken);
  going.on("upgrade", (answer, far, head) => {
    const through = way(treatment);
    open.add(through);
    through.on("close", () => open.delete(through));
    const headers = answer.rawHeaders;
    let text = `HTTP/1.1 101 ${answer.statusMessage}\r\n`;
    for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`;
    socket.write(`${text}\r\n`);
    through.write(head);
    far.pipe(through).pipe(socket);
    socket.pipe(far);
    for (const end of [far, through, socket]) {
      end.on("error", () => {
        broken();
        far.destroy();
      });
    }
    socket.on("close", () => far.destroy());
  });
  going.end();
}
