/** Tests that this machine cannot run. `THALWEG_SKIPPED` names a file with one per line, which `make test` counts. */

import { appendFileSync } from "node:fs";

/** Records that a test is skipped, and why. */
export function skipped(why: string): void {
  console.error(`skipped: ${why}`);
  const notes = process.env["THALWEG_SKIPPED"];
  if (notes) appendFileSync(notes, `${why}\n`);
}
