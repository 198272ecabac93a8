/** README's page: what stands under "In a web page" is run as it stands there. */

import { readFileSync } from "node:fs";

const README = new URL("../../../README.md", import.meta.url);

/** The first block of this language under a heading of README. */
export function snippet(language: "html" | "js" | "sh", heading = "In a web page"): string {
  const readme = readFileSync(README, "utf8");
  const section = readme.split(/^#+ /m).find((it) => it.startsWith(`${heading}\n`));
  const block = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "ms").exec(section ?? "");
  if (!block?.[1]) throw new Error(`README has no ${language} under "${heading}"`);
  return block[1];
}
