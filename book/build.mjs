/**
 * Builds the documentation of `docs/` as a book into `book/dist`, which is embedded in the program.
 *
 * mdBook writes the pages. Before that, links to files outside of `docs/` are replaced by the path as text, because
 * servers do not have these files. After that, inline scripts are moved into files, because the server's
 * Content-Security-Policy allows no inline scripts.
 *
 * Usage: node book/build.mjs MDBOOK
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, posix, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const BOOK = dirname(fileURLToPath(import.meta.url));
const DOCS = resolve(BOOK, "../docs");
const WORK = join(BOOK, "work");
const DIST = join(BOOK, "dist");

/** Returns the paths of all files below a folder, relative to it, with slashes. */
function filesBelow(folder, prefix = "") {
  return readdirSync(join(folder, prefix), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(prefix, entry.name);
    return entry.isDirectory() ? filesBelow(folder, path) : [path];
  });
}

/** Returns the lines of a page with its links to files outside of `docs/` as text. */
export function withoutOutsideLinks(page, text) {
  let isCode = false;
  const lines = text.split("\n").map((line) => {
    if (line.trimStart().startsWith("```")) isCode = !isCode;
    if (isCode) return line;
    return line.replace(/\[((?:[^\][]|\[[^\]]*\])*)\]\(<?([^)\s>]+)>?\)/g, (link, label, target) => {
      if (target.includes(":") || target.startsWith("#")) return link;
      const path = posix.normalize(posix.join("docs", posix.dirname(page), target.split("#")[0]));
      // mdBook names the page of a README index.html, but not in links.
      if (path.startsWith("docs/")) return `[${label}](${target.replace(/\bREADME\.md/, "index.md")})`;
      return label.replaceAll("`", "") === path ? `\`${path}\`` : `${label} (\`${path}\`)`;
    });
  });
  return lines.join("\n");
}

/** Returns a page of HTML without inline scripts and styles; `file(script)` names the file that has the script. */
export function withoutInlineScripts(html, file) {
  return html
    .replace(/<script>([\s\S]*?)<\/script>/g, (_, script) => `<script src="${file(script)}"></script>`)
    .replace('<div style="clear: both"></div>', '<div class="clear"></div>');
}

function build(mdbook) {
  rmSync(WORK, { recursive: true, force: true });
  const source = join(WORK, "src");
  for (const path of filesBelow(DOCS)) {
    const to = join(source, path);
    mkdirSync(dirname(to), { recursive: true });
    if (path.endsWith(".md")) writeFileSync(to, withoutOutsideLinks(path, readFileSync(join(DOCS, path), "utf8")));
    else cpSync(join(DOCS, path), to);
  }
  cpSync(join(BOOK, "book.toml"), join(WORK, "book.toml"));
  cpSync(join(BOOK, "theme"), join(WORK, "theme"), { recursive: true });
  execFileSync(mdbook, ["build", WORK, "--dest-dir", join(WORK, "dist")], { stdio: ["ignore", "ignore", "inherit"] });

  const built = join(WORK, "dist");
  for (const path of filesBelow(built).filter((it) => it.endsWith(".html"))) {
    const html = readFileSync(join(built, path), "utf8");
    const toRoot = relative(dirname(path), ".") || ".";
    const external = withoutInlineScripts(html, (script) => {
      const name = `inline-${createHash("sha256").update(script).digest("hex").slice(0, 8)}.js`;
      writeFileSync(join(built, name), script);
      return posix.join(toRoot, name);
    });
    writeFileSync(join(built, path), external);
  }
  rmSync(DIST, { recursive: true, force: true });
  renameSync(built, DIST);
  rmSync(WORK, { recursive: true, force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mdbook = process.argv[2];
  if (!mdbook || !existsSync(mdbook)) {
    console.error("The book needs mdBook: `make docs` installs it and builds the book.");
    process.exit(1);
  }
  build(mdbook);
}
