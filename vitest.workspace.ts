import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** The folders in the order of their tests: those that mostly wait begin first, so that none is alone at the end. */
const folders = [
  "packages/bench",
  "packages/e2e",
  "packages/console",
  "packages/dev-postgres",
  "packages/admin",
  "packages/worker",
  "packages/testing",
  "packages/api",
  "packages/core",
  "packages/bundle",
  "packages/client",
  "packages/domain",
  "scripts"
]

/** In the order of {@link folders}, and in each the larger files first. */
class InOrder extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    const place = ({ moduleId }: TestSpecification) => folders.findIndex((one) => moduleId.includes(`/${one}/test/`))
    return (await super.sort(files)).toSorted((one, other) => place(one) - place(other))
  }
}

export default defineConfig({
  test: {
    include: folders.map((folder) => `${folder}/test/**/*.test.ts`),
    // a part of the time is spent waiting for processes, time-outs and the disk
    maxWorkers: 3,
    // no test changes a module's state: loading Effect anew for every file would take a third of the whole time
    isolate: false,
    sequence: { sequencer: InOrder },
    globalSetup: [fileURLToPath(new URL("packages/dev-postgres/src/vitestSetup.ts", import.meta.url))],
    // for what never comes; a bound that is promised is asserted where it is promised
    testTimeout: 300_000,
    hookTimeout: 300_000
  }
})
