import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

/** A server to look at while the pages are worked on. */
const SERVER = process.env["THALWEG"] ?? "http://127.0.0.1:8080";

/** The SDK as it is, not as it was when it was last built. */
const sdk = (file: string): string => fileURLToPath(new URL(`../sdk/src/${file}`, import.meta.url));

/** The SDK as it is shipped, for everybody's pages: at `/sdk/` of the server. */
const shipped: Plugin = {
  name: "shipped-sdk",
  apply: "build",
  generateBundle() {
    for (const entry of ["thalweg", "arrow", "deltas", "keyed", "forever-frame", "tabs", "worker", "worker-host"]) {
      const from = new URL(`../sdk/dist/${entry}.js`, import.meta.url);
      // Without what names its source map, which is not in the server.
      const source = readFileSync(from, "utf8").replace(/\n\/\/# sourceMappingURL=.*\n?$/, "\n");
      this.emitFile({ type: "asset", fileName: `sdk/${entry}.js`, source });
    }
  },
};

export default defineConfig({
  // Wherever a proxy puts the server: all documents lie side by side in its root.
  base: "./",
  plugins: [shipped],
  resolve: {
    alias: [
      { find: /^thalweg$/, replacement: sdk("thalweg.ts") },
      { find: /^thalweg\/arrow$/, replacement: sdk("arrow.ts") },
      { find: /^thalweg\/forever-frame$/, replacement: sdk("forever-frame.ts") },
      // The demo kills connections of each transport. The package does not export them.
      { find: /^thalweg\/transports$/, replacement: sdk("transports/order.ts") },
    ],
  },
  build: {
    target: "es2023",
    // The pages' policy allows no `data:`, but for pictures; and these have names to be kept by.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The demo is a document of its own, which shows its headings before any script runs.
    rolldownOptions: {
      input: ["index.html", "demo.html"].map((name) => fileURLToPath(new URL(name, import.meta.url))),
    },
  },
  server: {
    proxy: {
      "/v1": { target: SERVER, ws: true },
      "/runs": { target: SERVER },
      "/metrics": { target: SERVER },
      "/overview": { target: SERVER },
    },
  },
});
