import { root } from "@card-rewards/testing/Processes"
import { assert, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"

interface Answer {
  readonly load: { readonly eventsPerSecond: number; readonly peakFactor: number }
  readonly need: Readonly<Record<"peakPerSecond" | "apis" | "workers" | "postgresCores" | "diskBytesPerMonth", number>>
  readonly day: { readonly utilisation: number; readonly worstBacklog: number; readonly recovers: boolean }
}

const capacity = (...args: ReadonlyArray<string>): string =>
  execFileSync(process.execPath, ["scripts/capacity.ts", ...args], { cwd: root, encoding: "utf8", stdio: "pipe" })

it("the capacity model finds the fewest machines that carry the peak of every rate", () => {
  const answers: ReadonlyArray<Answer> = JSON.parse(capacity("--json", "1", "500", "1000", "20000"))
  assert.lengthOf(answers, 4)
  for (const { day, load, need } of answers) {
    assert.strictEqual(need.peakPerSecond, load.eventsPerSecond * load.peakFactor)
    assert.deepStrictEqual([day.worstBacklog, day.recovers], [0, true])
    assert.isAtMost(day.utilisation, 0.7 + 1e-9)
    // at most one core more than necessary, of the part that limits the rate
    if (need.peakPerSecond > 10_000) assert.isAbove(day.utilisation, 0.65)
  }
  const [one, some, twice] = answers
  assert.deepStrictEqual([one?.need.apis, one?.need.workers, one?.need.postgresCores], [1, 1, 1])
  assert.closeTo((twice?.need.diskBytesPerMonth ?? 0) / (some?.need.diskBytesPerMonth ?? 1), 2, 1e-9)
  assert.include(capacity("500"), "| 500 | 1,500 |")
  assert.throws(() => capacity("-1"), /Usage/)
})
