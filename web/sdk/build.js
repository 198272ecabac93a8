/** Builds `dist`: one file per entry, without dependencies, and its types. */

import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { build } from "vite";

const here = import.meta.dirname;
export const ENTRIES = [
  "thalweg",
  "arrow",
  "deltas",
  "keyed",
  "forever-frame",
  "worker",
  "worker-host",
  "react",
  "tabs",
];

const folder = (name) => dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
/** Licences that files with bundled code must include. */
const LICENCES = { arrow: `/*! @uwdata/flechette\n\n${readFileSync(join(folder("@uwdata/flechette"), "LICENSE"))}*/` };

rmSync(join(here, "dist"), { recursive: true, force: true });
for (const name of ENTRIES) {
  await build({
    root: here,
    configFile: false,
    logLevel: "warn",
    build: {
      target: "es2022",
      emptyOutDir: false,
      lib: { entry: `src/${name}.ts`, formats: ["es"], fileName: () => `${name}.js` },
      rolldownOptions: {
        // Each of these modules has its own file, because it is loaded on demand, or the page imports it, too.
        external: ["./deltas.js", "./keyed.js", "./thalweg.js", "react"],
        output: {
          // Vite does not minify white space of libraries by default. Pages may use these files without a bundler.
          minify: true,
          // A `const` can be inlined where it is used, a `var` cannot.
          topLevelVar: false,
          // Components of a server must not import hooks.
          postBanner: name === "react" ? '"use client";\n' : "",
          postFooter: LICENCES[name] ?? "",
          comments: { annotation: false, jsdoc: false, legal: false },
        },
      },
      sourcemap: true,
    },
  });
}
const tsc = join(folder("typescript"), "bin/tsc");
const types = spawnSync(process.execPath, [tsc, "--project", "tsconfig.build.json"], {
  cwd: here,
  stdio: "inherit",
});
process.exitCode = types.status ?? 1;
