import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** In the order of their tests: those that mostly wait begin first, so that none of them is alone at the end. */
const names = [
  "bench",
  "e2e",
  "console",
  "dev-postgres",
  "admin",
  "worker",
  "testing",
  "api",
  "core",
  "bundle",
  "client",
  "domain",
  "scripts"
]

/** By project, in the order of {@link names}, and in a project the larger files first. */
class InOrder extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    const place = ({ project }: TestSpecification) => names.indexOf(project.name)
    return (await super.sort(files)).toSorted((one, other) => place(one) - place(other))
  }
}

const withoutDatabase = new Set(["domain", "bundle", "client", "scripts"])
const postgres = fileURLToPath(new URL("packages/dev-postgres/src/vitestSetup.ts", import.meta.url))

/** One project for each package, and one for the scripts; test files stand in `test/`. */
export default defineConfig({
  test: {
    // half of the time is spent waiting for processes, time-outs and the disk
    maxWorkers: 3,
    sequence: { sequencer: InOrder },
    projects: names.map((name) => ({
      test: {
        name,
        // no test changes a module's state: loading Effect anew for every file would take a third of the whole time
        isolate: false,
        root: name === "scripts" ? name : `packages/${name}`,
        include: ["test/**/*.test.ts"],
        globalSetup: withoutDatabase.has(name) ? [] : [postgres],
        // for what never comes; a bound that is promised is asserted where it is promised
        testTimeout: 300_000,
        hookTimeout: 300_000
      }
    }))
  }
})
