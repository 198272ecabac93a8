/** A React application, built with Vite and served together with the server's API. */

import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AddressInfo, Socket } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type InlineConfig, preview } from "vite";

/** Workspaces with their own React. */
export const REACTS = { "React 18": "../package.json", "React 19": "../../sdk/package.json" } as const;

/** Within the workspace, so that packages are found. */
const WORK = fileURLToPath(new URL("../test-results/", import.meta.url));

export interface App {
  readonly origin: string;
  close(): Promise<void>;
}

export type ReactVersion = keyof typeof REACTS;

/** A folder, or the text of each file. */
export type Source = string | Record<string, string>;

/** Builds and serves an application. */
export async function app(source: Source, react: ReactVersion): Promise<App> {
  mkdirSync(WORK, { recursive: true });
  const root = mkdtempSync(join(WORK, "app-"));
  if (typeof source === "string") cpSync(source, root, { recursive: true });
  else for (const [name, text] of Object.entries(source)) writeFileSync(join(root, name), text);
  const own = createRequire(new URL(REACTS[react], import.meta.url));
  const alias = ["react-dom", "react"].map((name) => ({
    find: new RegExp(`^${name}(?=/|$)`),
    replacement: dirname(own.resolve(`${name}/package.json`)),
  }));
  const config: InlineConfig = {
    root,
    logLevel: "silent",
    resolve: { alias },
    // Only React's development build mounts components twice in StrictMode.
    define: { "process.env.NODE_ENV": '"development"' },
    build: { minify: false },
    preview: { host: "127.0.0.1", port: 0 },
  };
  await build(config);
  const { httpServer } = await preview(config);
  const { port } = httpServer.address() as AddressInfo;
  // A server does not close its WebSockets.
  const sockets = new Set<Socket>();
  httpServer.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  return {
    origin: `http://127.0.0.1:${port}`,
    async close() {
      await new Promise((closed) => {
        httpServer.close(closed);
        for (const socket of sockets) socket.destroy();
      });
      rmSync(root, { recursive: true });
    },
  };
}
