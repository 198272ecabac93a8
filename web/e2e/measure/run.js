/**
 * Takes a measurement: `npm run measure -- NAME [--out FOLDER] [--seconds N]`.
 * Browser and everything that drives it on core 1; the server on core 0.
 */

import { spawn } from "node:child_process";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string" }, seconds: { type: "string" } },
});
const [name] = positionals;
if (!name) {
  console.error("which one? live or slow");
  process.exit(2);
}
const command = [
  "-c",
  "1",
  "npx",
  "playwright",
  "test",
  "--config",
  "measure/playwright.config.ts",
  `measure/${name}.measure`,
];
const child = spawn("taskset", command, {
  stdio: "inherit",
  env: {
    ...process.env,
    ...(values.out && { MEASURE_OUT: resolve(values.out) }),
    ...(values.seconds && { MEASURE_SECONDS: values.seconds }),
  },
});
child.on("exit", (code) => process.exit(code ?? 1));
