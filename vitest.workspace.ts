import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const packages = ["domain", "dev-postgres", "core", "api", "worker", "client", "testing", "admin", "e2e", "console", "bench"]
const withoutDatabase = new Set(["domain", "client"])
const postgres = fileURLToPath(new URL("packages/dev-postgres/src/vitestSetup.ts", import.meta.url))

/** One project for each package; every test file stands in `test/` beside `src/`. */
export default defineConfig({
  test: {
    projects: packages.map((name) => ({
      test: {
        name,
        root: `packages/${name}`,
        include: ["test/**/*.test.ts"],
        globalSetup: withoutDatabase.has(name) ? [] : [postgres],
        testTimeout: 60_000,
        hookTimeout: 60_000
      }
    }))
  }
})
