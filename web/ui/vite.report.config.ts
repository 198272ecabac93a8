/** Builds `dist/report.html`: one file with its script and styles, into which the lab writes a summary. */

import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/** Puts scripts and styles into the document, and leaves no other file. */
const inline: Plugin = {
  name: "inline",
  enforce: "post",
  generateBundle(_options, bundle) {
    const document = bundle["report.html"];
    if (document?.type !== "asset") throw new Error("the build has no report.html");
    let html = String(document.source);
    for (const [name, file] of Object.entries(bundle)) {
      if (file === document) continue;
      const escaped = name.replaceAll(".", "\\.");
      if (file.type === "chunk") {
        const code = file.code.replaceAll("</script", "<\\/script");
        html = html.replace(
          new RegExp(`<script[^>]*${escaped}[^>]*></script>`),
          () => `<script type="module">${code}</script>`,
        );
      } else {
        html = html.replace(new RegExp(`<link[^>]*${escaped}[^>]*>`), () => `<style>${String(file.source)}</style>`);
      }
      delete bundle[name];
    }
    if (/<(script|link)[^>]*(src|href)=/.test(html)) throw new Error("report.html is not self-contained");
    document.source = html;
  },
};

export default defineConfig({
  base: "./",
  plugins: [inline],
  build: {
    target: "es2023",
    // The pages are built before.
    emptyOutDir: false,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: fileURLToPath(new URL("report.html", import.meta.url)) },
  },
});
