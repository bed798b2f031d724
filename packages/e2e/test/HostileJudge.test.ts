import { deposit } from "@card-rewards/e2e/hostile/attacks/Deposit"
import { millionDue } from "@card-rewards/e2e/hostile/attacks/Maturing"
import { breaches } from "@card-rewards/e2e/hostile/Judge"
import type { Measured } from "@card-rewards/e2e/hostile/Phases"
import { scheduleOf, slowdown } from "@card-rewards/e2e/hostile/ProcessorTime"
import { Samples } from "@card-rewards/e2e/hostile/Samples"
import * as Table from "@card-rewards/e2e/hostile/Table"
import { assert, describe, it } from "@effect/vitest"

interface Millis {
  readonly post: number
  readonly reward?: number
  readonly webhook: number
}

/** One post each 100 ms from `from` on, with these latencies. */
const posted = (samples: Samples, from: number, count: number, millis: Millis) => {
  for (let index = 0; index < count; index++) {
    const event = from / 100 + index
    const at = from + index * 100
    samples.record({ kind: "intended", event, at })
    samples.record({ kind: "answered", event, at: at + millis.post, answer: "202" })
    if (millis.reward !== undefined) samples.record({ kind: "rewarded", event, at: at + millis.reward })
    samples.record({ kind: "delivered", event, at: at + millis.webhook })
  }
}

const calm = { post: 5, reward: 80, webhook: 60 }

/** Five seconds before and after, ten seconds of attack. */
const measured = (during: Millis, changes: Partial<Measured> = {}): Measured => {
  const samples = new Samples()
  posted(samples, 0, 50, calm)
  posted(samples, 5_000, 100, during)
  posted(samples, 15_000, 50, calm)
  return {
    attack: "deposit",
    what: "a deposit",
    before: samples.summarize(0, 5_000, 21_000),
    during: samples.summarize(5_000, 15_000, 21_000),
    after: samples.summarize(15_000, 20_000, 21_000),
    duringMillis: 10_000,
    recoveryMillis: 0,
    peakBytes: { api: 2 ** 28, worker: 2 ** 28 },
    slowdown: 1,
    figures: [],
    failures: [],
    ...changes
  }
}

describe("the judgement of an attack", () => {
  it("finds nothing where every latency is within its bound", () => {
    assert.deepStrictEqual(breaches(deposit, measured({ post: 299, reward: 999, webhook: 1_499 }), "full"), [])
  })

  it("names each latency beyond its bound", () => {
    const found = breaches(deposit, measured({ post: 301, reward: 1_001, webhook: 1_501 }), "full")
    assert.deepStrictEqual(found.map((line) => line.split(" ")[0]), ["post", "reward", "webhook"])
  })

  it("counts an event that never gets its reward with its age", () => {
    const { during } = measured({ post: 5, webhook: 60 })
    assert.strictEqual(during.reward.unfinished, 100)
    assert.strictEqual(during.reward.max, 16_000)
    assert.include(Table.print([measured({ post: 5, webhook: 60 })]), "(100 unfinished)")
  })

  it("takes 500 ms as the bound of rewards while a million of another integrator come due", () => {
    const million = measured({ post: 5, reward: 600, webhook: 60 })
    assert.lengthOf(breaches(millionDue, million, "full"), 1)
    assert.deepStrictEqual(breaches(deposit, million, "full"), [])
  })

  it("finds a post that is not answered 202, a wedged attacker, lost calm and memory without bound", () => {
    const samples = new Samples()
    samples.record({ kind: "intended", event: 0, at: 0 })
    samples.record({ kind: "answered", event: 0, at: 5, answer: "503" })
    const refused = samples.summarize(0, 100, 100)
    const peakBytes = { api: 0, worker: 2 ** 31 }
    const changes = { before: refused, recoveryMillis: undefined, peakBytes, failures: ["wedged"] }
    const found = breaches(deposit, measured(calm, changes), "full")
    assert.lengthOf(found, 4, found.join("\n"))
  })

  it("allows a slow machine's short form, not a full form, four times what was measured before the attack", () => {
    const slow = { post: 5, reward: 400, webhook: 60 }
    const samples = new Samples()
    posted(samples, 0, 50, slow)
    const before = samples.summarize(0, 5_000, 21_000)
    const during = measured({ post: 5, reward: 1_500, webhook: 60 }, { before })
    assert.deepStrictEqual(breaches(deposit, during, "short"), [])
    assert.lengthOf(breaches(deposit, during, "full"), 1)
  })

  it("allows a short form, not a full form, to take longer by what others took of the processors", () => {
    const during = (slowdown: number) => measured({ post: 550, reward: 80, webhook: 60 }, { slowdown })
    assert.deepStrictEqual(breaches(deposit, during(2), "short"), [])
    assert.lengthOf(breaches(deposit, during(1.5), "short"), 1)
    assert.lengthOf(breaches(deposit, during(2), "full"), 1)
  })

  it("reads from a schedule how much longer than alone a process took", () => {
    assert.strictEqual(slowdown({ ran: 100, waited: 50 }, { ran: 300, waited: 150 }), 1.5)
    assert.strictEqual(slowdown({ ran: 100, waited: 50 }, { ran: 100, waited: 50 }), 1)
    const { ran, waited } = scheduleOf(process.pid)
    assert.isAbove(ran, 0)
    assert.isAtLeast(waited, 0)
  })
})
