import { defineConfig } from "vitest/config"

/** One project for each package; every test file stands in `test/` beside `src/`. */
export default defineConfig({
  test: {
    projects: ["domain", "dev-postgres", "core", "api", "worker", "client", "admin", "e2e"].map((name) => ({
      test: {
        name,
        root: `packages/${name}`,
        include: ["test/**/*.test.ts"],
        testTimeout: 60_000,
        hookTimeout: 60_000
      }
    }))
  }
})
