import * as TestProcess from "@card-rewards/testing/TestProcess"
import { until } from "@card-rewards/testing/Polling"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { resolve } from "node:path"

const starter = `
  import { start } from "@card-rewards/testing/TestProcess"
  import { Effect } from "effect"
  const waiting = start(["--eval", "setInterval(() => {}, 1_000)"], { env: {} })
  const main = Effect.andThen(Effect.tap(waiting, ({ pid }) => Effect.sync(() => console.log(pid))), Effect.never)
  await Effect.runPromise(Effect.scoped(main))`

const exists = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe("a process that a test has started", () => {
  it.live("ends when the process of the test is killed", () =>
    Effect.gen(function*() {
      const cwd = resolve(import.meta.dirname, "..")
      const parent = yield* TestProcess.start(["--input-type=module", "--eval", starter], { env: {}, cwd })
      const printed = Effect.sync(parent.output)
      const pid = Number(yield* until("the child's id", printed, (output) => /^\d+\n/.test(output)))
      assert.isTrue(exists(pid))
      yield* parent.send("SIGKILL")
      yield* until("the child's end", Effect.sync(() => exists(pid)), (isAlive) => !isAlive)
    }).pipe(Effect.scoped))
})
