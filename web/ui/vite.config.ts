import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** A server to look at while the pages are worked on. */
const SERVER = process.env["THALWEG"] ?? "http://127.0.0.1:8080";

/** The SDK as it is, not as it was when it was last built. */
const sdk = (file: string): string => fileURLToPath(new URL(`../sdk/src/${file}`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^thalweg$/, replacement: sdk("thalweg.ts") },
      { find: /^thalweg\/forever-frame$/, replacement: sdk("forever-frame.ts") },
    ],
  },
  build: {
    target: "es2023",
    // The pages' policy allows no `data:`, but for pictures; and these have names to be kept by.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    proxy: {
      "/v1": { target: SERVER, ws: true },
      "/runs": { target: SERVER },
    },
  },
});
