/** Code of documents, which tests run unchanged. */

import { readFileSync } from "node:fs";

const ROOT = new URL("../../../", import.meta.url);

/** Returns the first block of this language under a heading of a document. */
export function snippet(
  language: "js" | "html" | "sh" | "nginx",
  heading = "In a web page",
  document = "README.md",
): string {
  const text = readFileSync(new URL(document, ROOT), "utf8");
  const section = text.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`));
  const block = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "ms").exec(section ?? "");
  if (!block?.[1]) throw new Error(`${document} has no ${language} under "${heading}"`);
  return block[1];
}

/** Returns the blocks of a document that begin with the name of a file, such as `// main.tsx`. */
export function snippetFiles(document: string): Record<string, string> {
  const text = readFileSync(new URL(document, ROOT), "utf8");
  const blocks = text.matchAll(/^```\w+\n(\/\/ (\S+\.\w+)\n.*?)^```$/gms);
  return Object.fromEntries([...blocks].map(([, code = "", name = ""]) => [name, code]));
}
