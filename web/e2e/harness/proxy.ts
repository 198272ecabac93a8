/**
 * Stands between the browser and the server, of one origin with the pages of the tests
 * (`site`), and treats each request as it is told.
 */

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
import { type Asked, asked } from "./asked.js";
import { file } from "./site.js";
import { PASS, type Treatment, way } from "./treatments.js";

/** Says how a request is treated. */
export type Treat = (asked: Asked) => Treatment;

export interface Network {
  readonly origin: string;
  /** All that was asked of the server so far. */
  readonly asked: readonly Asked[];
  /** From now on requests are treated like this. */
  treat(treat: Treat): void;
  /** The first request that fits among all from number `from` on, as soon as there is one. */
  seen(test: (asked: Asked) => boolean, from?: number): Promise<Asked>;
  /** Lets nothing more through what is open, and does not end it. */
  freeze(): void;
  /** Cuts all connections. */
  cut(): void;
  close(): Promise<void>;
}

/** One before the server at `upstream` (`host:port`). */
export async function proxy(upstream: string, treat: Treat = () => PASS): Promise<Network> {
  const seen: Asked[] = [];
  const events = new EventEmitter();
  const sockets = new Set<Socket>();
  const open: Open = new Set();
  const note = (request: IncomingMessage): Treatment => {
    const it = asked(request);
    seen.push(it);
    events.emit("asked");
    return treat(it);
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

/** The ways of all answers under way. */
type Open = Set<Transform>;

/** One request on its way. */
interface Passage {
  readonly upstream: string;
  readonly open: Open;
  readonly request: IncomingMessage;
  readonly treatment: Treatment;
}

/** As it came, but on a connection of its own: the browser's is the browser's. */
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

/** Without what is between two ends of one connection. */
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
