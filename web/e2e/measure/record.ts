/** What was measured, with what it was measured on. */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import type { Browser } from "@playwright/test";

/** Where it was taken. */
function machine(browser: Browser): object {
  return {
    taken: new Date().toISOString(),
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memoryBytes: totalmem(),
    kernel: release(),
    load: loadavg(),
    chromium: browser.version(),
    node: process.version,
    commit: execFileSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).trim(),
    placement: "server on core 0; browser and what drives it on core 1",
  };
}

/** Prints the summary; writes it, with all that was seen, where `--out` says. */
export function record(browser: Browser, name: string, summary: object, raw: object): void {
  console.log(JSON.stringify(summary, null, 2));
  const folder = process.env["MEASURE_OUT"];
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  const all = { name, machine: machine(browser), summary, ...raw };
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(all)}\n`);
}

/** How long to measure, s. */
export function seconds(otherwise: number): number {
  return Number(process.env["MEASURE_SECONDS"] ?? otherwise);
}
