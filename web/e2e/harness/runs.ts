/** A folder of runs, as the lab leaves them: archived ones, with their reports made again. */

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BINARY } from "./server.js";

const ARCHIVE = fileURLToPath(new URL("../../../lab/runs/2026-11-23-epyc-2/", import.meta.url));

/** The folder: by its name, of which archived run each is a copy. It is the caller's to remove. */
export function runs(copies: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "thalweg-runs-"));
  for (const [name, archived] of Object.entries(copies)) {
    const run = join(folder, name);
    cpSync(join(ARCHIVE, archived), run, { recursive: true });
    execFileSync(BINARY, ["bench", "export", run, "--format", "html", "--out", join(run, "report.html")]);
  }
  return folder;
}
