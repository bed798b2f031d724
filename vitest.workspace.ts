import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const packages = ["domain", "dev-postgres", "core", "api", "worker", "client", "testing", "admin", "e2e", "console", "bench"]
const withoutDatabase = new Set(["domain", "client", "scripts"])
const postgres = fileURLToPath(new URL("packages/dev-postgres/src/vitestSetup.ts", import.meta.url))

/** One project for each package, and one for the scripts; test files stand in `test/`. */
export default defineConfig({
  test: {
    // half of the time is spent waiting for processes, time-outs and the disk
    maxWorkers: 3,
    projects: [...packages, "scripts"].map((name) => ({
      test: {
        name,
        // no test changes a module's state: loading Effect anew for every file would take a third of the whole time
        isolate: false,
        root: name === "scripts" ? name : `packages/${name}`,
        include: ["test/**/*.test.ts"],
        globalSetup: withoutDatabase.has(name) ? [] : [postgres],
        // for what never comes; a bound that is promised is asserted where it is promised
        testTimeout: 120_000,
        hookTimeout: 120_000
      }
    }))
  }
})
