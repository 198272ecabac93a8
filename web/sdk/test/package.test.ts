/** The published package: its files, its types, and the example in README. */

import { execFile, spawn } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { snippet } from "./snippet.js";
import { World } from "./world.js";

const HERE = join(import.meta.dirname, "..");
const run = promisify(execFile);
const require = createRequire(import.meta.url);
const folder = (name: string, from = require): string => dirname(from.resolve(`${name}/package.json`));

it("has these files, and no others", async () => {
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: HERE });
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  const entries = ["thalweg", "arrow", "deltas", "keyed", "forever-frame", "worker", "worker-host", "react", "tabs"];
  const paths = files.map(({ path }) => path);
  const types = /^dist\/[a-z/-]+\.d\.ts$/;
  expect(paths.filter((path) => !types.test(path)).sort()).toEqual(
    [
      "LICENSE-APACHE",
      "LICENSE-MIT",
      "README.md",
      "package.json",
      ...entries.flatMap((name) => [`dist/${name}.js`, `dist/${name}.js.map`]),
    ].sort(),
  );
  for (const name of entries) expect(paths).toContain(`dist/${name}.d.ts`);
});

it("is built by packing it from a fresh clone", async () => {
  const clone = mkdtempSync(join(tmpdir(), "thalweg-pack-"));
  try {
    const { stdout } = await run("git", ["ls-files", "-z"], { cwd: HERE });
    for (const file of stdout.split("\0").filter(Boolean)) {
      const to = join(clone, "sdk", file);
      mkdirSync(dirname(to), { recursive: true });
      cpSync(join(HERE, file), to);
    }
    // As after `npm ci`.
    symlinkSync(realpathSync(join(HERE, "../node_modules")), join(clone, "node_modules"));
    await run("npm", ["pack", "--pack-destination", clone], { cwd: join(clone, "sdk") });
    const [packed = ""] = readdirSync(clone).filter((file) => file.endsWith(".tgz"));
    const files = (await run("tar", ["-tzf", join(clone, packed)])).stdout.split("\n");
    for (const name of ["thalweg", "arrow", "worker-host"]) {
      expect(files).toContain(`package/dist/${name}.js`);
      expect(files).toContain(`package/dist/${name}.d.ts`);
    }
  } finally {
    rmSync(clone, { recursive: true });
  }
});

describe("types", () => {
  it.each([
    ["typescript", "nodenext", "nodenext"],
    ["typescript", "esnext", "bundler"],
    ["typescript-5", "nodenext", "nodenext"],
    ["typescript-5", "esnext", "bundler"],
  ])("resolve with %s, module %s, moduleResolution %s", async (typescript, module, resolution) => {
    const strict = ["--strict", "--exactOptionalPropertyTypes", "--skipDefaultLibCheck"];
    const flags = ["--noEmit", ...strict, "--target", "es2022"];
    const lib = ["--lib", "es2022,dom,dom.iterable,dom.asynciterable"];
    // TypeScript 5 does so without the flag, which it does not know.
    const ignore = typescript === "typescript" ? ["--ignoreConfig"] : [];
    const how = ["--module", module, "--moduleResolution", resolution, ...ignore];
    const all = [join(folder(typescript), "bin/tsc"), ...flags, ...lib, ...how, "test/consumer/main.ts"];
    const { stdout } = await run(process.execPath, all, { cwd: HERE }).catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });

  const other = createRequire(new URL("../../e2e/package.json", import.meta.url));
  it.each([
    { typescript: "typescript", react: "19", types: folder("@types/react") },
    { typescript: "typescript", react: "18", types: folder("@types/react", other) },
    { typescript: "typescript-5", react: "19", types: folder("@types/react") },
    { typescript: "typescript-5", react: "18", types: folder("@types/react", other) },
  ])("of hooks resolve with $typescript and React $react", async ({ typescript, react, types }) => {
    const { version } = JSON.parse(readFileSync(join(types, "package.json"), "utf8")) as { version: string };
    expect(version).toMatch(new RegExp(`^${react}\\.`));
    const config = join(mkdtempSync(join(tmpdir(), "thalweg-types-")), "tsconfig.json");
    const compilerOptions = {
      ...{ noEmit: true, strict: true, skipDefaultLibCheck: true, types: [] },
      ...{ target: "es2022", lib: ["es2022", "dom", "dom.iterable", "dom.asynciterable"] },
      ...{ module: "esnext", moduleResolution: "bundler", jsx: "react-jsx" },
      paths: { react: [join(types, "index.d.ts")], "react/*": [join(types, "*")] },
    };
    writeFileSync(config, JSON.stringify({ compilerOptions, files: [join(HERE, "test/consumer/react.tsx")] }));
    const all = [join(folder(typescript), "bin/tsc"), "--project", config];
    const { stdout } = await run(process.execPath, all).catch((error: { stdout: string }) => error);
    rmSync(dirname(config), { recursive: true });
    expect(stdout).toBe("");
  });
});

it("README's example shows published events", async () => {
  const world = new World();
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const answer = await world.fetch(`http://server${request.url ?? "/"}`, {
      method: request.method ?? "GET",
      headers: { "Content-Type": request.headers["content-type"] ?? "" },
      body: chunks.length ? Buffer.concat(chunks as Buffer[]).toString() : null,
      signal: gone.signal,
    });
    response.writeHead(answer.status);
    if (answer.body)
      Readable.fromWeb(answer.body as never)
        .on("error", () => {})
        .pipe(response);
    else response.end();
  });
  await new Promise<void>((go) => server.listen(0, "127.0.0.1", go));
  const { port } = server.address() as AddressInfo;
  // Objects that a page has and Node does not.
  const page = `globalThis.location = { href: "http://127.0.0.1:${port}/" };\n`;
  // The example imports by package name, which works only with a bundler.
  const code = page + snippet("js").replace('"/sdk/thalweg.js"', '"thalweg"');
  const node = spawn(process.execPath, ["--input-type=module", "--eval", code], {
    cwd: HERE,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: node.stdout })[Symbol.asyncIterator]();
  try {
    for (const greeting of ["world", "again"]) {
      world.publish("greetings", { hello: greeting });
      const wanted = `{ hello: '${greeting}' }`;
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error(`it ended before it said ${wanted}`);
        if (value === wanted) break;
      }
    }
  } finally {
    node.kill();
    server.closeAllConnections();
    server.close();
  }
});
