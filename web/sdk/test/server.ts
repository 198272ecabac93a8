/** The real server. `THALWEG_BIN` names the binary. */

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export const BINARY = process.env["THALWEG_BIN"];

export interface Server {
  url: string;
  stop(): Promise<void>;
}

/** Starts the server, on a free port unless `flags` name one, and waits until it listens. */
export async function serve(flags: readonly string[] = [], address = "127.0.0.1:0"): Promise<Server> {
  if (!BINARY) throw new Error("THALWEG_BIN names no binary");
  const child = spawn(BINARY, ["serve", "--listen", address, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  const gone = new Promise<void>((go) => child.once("exit", () => go()));
  const url = await Promise.race([
    listening(child),
    gone.then(() => Promise.reject(new Error("the server ended before it listened"))),
  ]);
  return {
    url,
    stop: async () => {
      child.kill("SIGKILL");
      await gone;
    },
  };
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((go) => {
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue;
      createInterface({ input: stream }).on("line", (line) => {
        const found = /listening on (https?:\/\/\S+)/.exec(line);
        if (found?.[1]) go(`${found[1]}/`);
      });
    }
  });
}
