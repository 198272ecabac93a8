import { mergeConfig } from "vitest/config";
import base from "./vite.config.js";

export default mergeConfig(base, { test: { include: ["test/*.test.ts"] } });
