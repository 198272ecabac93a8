/** A folder of the lab's runs: archived ones, with generated reports. */

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BINARY } from "./server.js";

/** The lab is beside the server. */
const LAB = `${BINARY}-lab`;

const ARCHIVE = fileURLToPath(new URL("../../../lab/runs/2026-11-23-epyc-2/", import.meta.url));

/** Creates a folder with copies of archived runs, by the names of the copies. The caller removes the folder. */
export function runs(copies: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "thalweg-runs-"));
  for (const [name, archived] of Object.entries(copies)) {
    const run = join(folder, name);
    cpSync(join(ARCHIVE, archived), run, { recursive: true });
    for (const [format, file] of [
      ["html", "report.html"],
      ["json", "summary.json"],
    ] as const) {
      execFileSync(LAB, ["bench", "export", run, "--format", format, "--out", join(run, file)]);
    }
  }
  return folder;
}
