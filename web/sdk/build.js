/** Builds `dist`: each entry one file that needs no other, and its types. */

import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { build } from "vite";

const here = import.meta.dirname;
export const ENTRIES = ["thalweg", "arrow", "deltas", "forever-frame", "worker", "worker-host"];

/** The folder of a package that something here is made with. */
const folder = (name) => dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
/** What is in an entry of others', whose licence asks for its text wherever it is passed on. */
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
        // Loaded on demand: its own file, beside this one.
        external: ["./deltas.js"],
        output: {
          // For libraries Vite leaves white space to whoever bundles them; pages may not bundle.
          minify: true,
          // A `const` is put where it is used, a `var` is not.
          topLevelVar: false,
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
