import { createRequire } from "node:module";
import { dirname } from "node:path";
import { defineConfig } from "vitest/config";

/** The workspace that has React 18. */
const other = createRequire(new URL("../e2e/package.json", import.meta.url));
const folder = (name: string): string => dirname(other.resolve(`${name}/package.json`));

// A test that hangs fails after ten minutes, one on a busy machine does not.
export default defineConfig({
  test: {
    testTimeout: 600_000,
    hookTimeout: 600_000,
    projects: [
      { extends: true, test: { name: "sdk", include: ["test/*.test.ts"] } },
      {
        extends: true,
        resolve: { alias: { "react-dom": folder("react-dom"), react: folder("react") } },
        test: { name: "react-18", include: ["test/react.test.ts"] },
      },
    ],
  },
});
