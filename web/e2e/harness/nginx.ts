/** nginx in front of a server, with the configuration of docs/how-to/proxies.md. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestInfo } from "@playwright/test";
import { skipped } from "../../sdk/test/skipped.js";
import { snippet } from "../../sdk/test/snippet.js";

const PATHS = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];

const MISSING = "there is no nginx on this machine: make setup installs it";

/** Time between two checks whether nginx listens, ms: nginx has no event for that. */
const LOOK_AGAIN_MS = 20;

export interface Nginx {
  readonly origin: string;
  close(): Promise<void>;
}

/** Starts nginx in front of `upstream` (`host:port`), at `/` and at `/live/`. Without nginx the test is skipped. */
export async function nginx(upstream: string, test: TestInfo): Promise<Nginx> {
  const program = PATHS.find(isProgram) ?? skip(test);
  const folder = mkdtempSync(join(tmpdir(), "thalweg-nginx-"));
  const port = await freePort();
  const lines = snippet("nginx", "nginx", "docs/how-to/proxies.md")
    .replace("listen 80;", `listen 127.0.0.1:${port};`)
    .replaceAll("127.0.0.1:8080", upstream);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const http = `http { access_log off; ${temporary.join(" ")}\n${lines}}\n`;
  const file = join(folder, "nginx.conf");
  writeFileSync(file, `daemon off; master_process off; pid ${folder}/pid; error_log stderr crit; events {}\n${http}`);
  const child = spawn(program, ["-p", folder, "-c", file], { stdio: ["ignore", "inherit", "inherit"] });
  const orphan = (): void => void child.kill("SIGKILL");
  process.once("exit", orphan);
  while (!(await listens(port))) {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}`);
    await sleep(LOOK_AGAIN_MS);
  }
  return {
    origin: `http://127.0.0.1:${port}`,
    close: async () => {
      process.off("exit", orphan);
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function skip(test: TestInfo): never {
  skipped(MISSING);
  test.skip(true, MISSING);
  throw new Error(MISSING);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

function listens(port: number): Promise<boolean> {
  return new Promise((tell) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => {
      socket.destroy();
      tell(true);
    });
    socket.on("error", () => tell(false));
  });
}
