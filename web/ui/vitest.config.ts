import { mergeConfig } from "vitest/config";
import base from "./vite.config.js";

// A test that hangs fails after ten minutes, one on a busy machine does not.
export default mergeConfig(base, { test: { include: ["test/*.test.ts"], testTimeout: 600_000, hookTimeout: 600_000 } });
