import { defineConfig } from "vitest/config";

// A test that hangs fails after ten minutes, one on a busy machine does not.
export default defineConfig({ test: { include: ["test/*.test.ts"], testTimeout: 600_000, hookTimeout: 600_000 } });
