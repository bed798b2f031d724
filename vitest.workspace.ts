import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Folders whose tests wait more than they compute, and those of the others. */
const waiting = [
  "packages/bench",
  "packages/testing",
  "packages/e2e",
  "packages/console",
  "packages/dev-postgres",
  "packages/admin",
  "packages/worker"
]
const computing = ["packages/api", "packages/core", "packages/bundle", "packages/client", "packages/domain", "scripts"]
const folders = [...waiting, ...computing]

/**
 * In the order of {@link folders}, and in each the larger files first; but a file that computes after each one that
 * waits, so that the processor has work from the beginning to the end.
 */
class InOrder extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    const place = ({ moduleId }: TestSpecification) => folders.findIndex((one) => moduleId.includes(`/${one}/test/`))
    const sorted = (await super.sort(files)).toSorted((one, other) => place(one) - place(other))
    const { true: first = [], false: second = [] } = Object.groupBy(sorted, (one) => `${place(one) < waiting.length}`)
    return [...first.flatMap((one, index) => [one, ...second.slice(index, index + 1)]), ...second.slice(first.length)]
  }
}

export default defineConfig({
  test: {
    include: folders.map((folder) => `${folder}/test/**/*.test.ts`),
    // a part of the time is spent waiting for processes, time-outs and the disk
    maxWorkers: 4,
    // no test changes a module's state: loading Effect anew for every file would take a third of the whole time
    isolate: false,
    sequence: { sequencer: InOrder },
    globalSetup: [fileURLToPath(new URL("packages/dev-postgres/src/vitestSetup.ts", import.meta.url))],
    // for what never comes; a bound that is promised is asserted where it is promised
    testTimeout: 300_000,
    hookTimeout: 300_000
  }
})
