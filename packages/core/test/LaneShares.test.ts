import { BatchLimit } from "@card-rewards/core/Processing/BatchLimit"
import { EventWeights } from "@card-rewards/core/Processing/Budget"
import { processNext } from "@card-rewards/core/Processing/Isolation"
import { LaneShares, maxParallel } from "@card-rewards/core/Processing/LaneShares"
import { byLaneKey, type LaneKey, laneKeyOf } from "@card-rewards/core/LaneKey"
import { findLanes, maxLanes, ScanState } from "@card-rewards/core/Processing/Queue"
import { Programs } from "@card-rewards/core/Programs"
import { laneCount } from "@card-rewards/domain/Lane"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { failInserts, quarantineOf, setUp } from "./Quarantined.ts"
import { liveMoneyLayer } from "./Spending.ts"

const lanesOf = (integratorId: string, count: number): ReadonlyArray<LaneKey> =>
  Array.from({ length: count }, (_, lane) => ({ integratorId, lane }))

const integratorsOf = (lanes: ReadonlyArray<LaneKey>) => [...new Set(lanes.map(({ integratorId }) => integratorId))]

/** As a scan would find the lanes, which all keep having work. */
const fromCursor = (lanes: ReadonlyArray<LaneKey>, { cursor }: ScanState) => [
  ...lanes.filter((lane) => byLaneKey(lane, cursor) > 0),
  ...lanes.filter((lane) => byLaneKey(lane, cursor) <= 0)
]

describe("the lanes of batches that are in flight at once", () => {
  it("of one integrator are divided among the batches", () => {
    const shares = new LaneShares()
    const found = lanesOf("a", 16)
    const taken = Array.from({ length: maxParallel + 1 }, () => shares.take(found, 256, true).taken)
    assert.deepStrictEqual(taken.map((lanes) => lanes.length), [6, 5, 5, 0])
    assert.deepStrictEqual(taken.flat(), found)
  })

  it("are free again after their batch has ended", () => {
    const shares = new LaneShares()
    const found = lanesOf("a", 4)
    const { taken } = shares.take(found, 256, false)
    assert.deepStrictEqual(shares.take(found, 256, false).taken, [])
    shares.release(taken)
    assert.deepStrictEqual(shares.take(found, 256, false).taken, found)
  })

  it("are of other integrators than those of a batch in flight, as long as there are any", () => {
    const shares = new LaneShares()
    const [first, second] = [lanesOf("a", 16), lanesOf("b", 16)]
    shares.take(first, 256, true)
    assert.deepStrictEqual(shares.take([...first, ...second], 256, false).taken, second)
  })

  it.prop("are of different integrators, and each lane has its turn", [Schema.Int], ([seed]) => {
    const random = SeededRandom.make(seed)
    const integrators = random.integer(2, 12)
    const lanes = Array.from({ length: integrators }, (_, index) =>
      lanesOf(String.fromCharCode(97 + index), random.integer(1, 16))).flat()
    const scan = new ScanState()
    const limit = random.integer(16, 256)
    // batches that have all lanes once
    const rounds = Math.ceil(lanes.length / limit)
    const inFlight: Array<ReadonlyArray<LaneKey>> = []
    const waited = new Map(lanes.map((lane) => [laneKeyOf(lane), 0]))
    for (let batch = 0; batch < 100; batch++) {
      while (inFlight.length >= random.integer(1, maxParallel)) {
        scan.shares.release(inFlight.splice(random.integer(0, inFlight.length - 1), 1)[0] ?? [])
      }
      scan.isBatchFull = random.integer(0, 1) === 0
      const taken = scan.take(scan.left.length > 0 && !scan.isBatchFull ? scan.left : fromCursor(lanes, scan), limit)
      assert.isAtMost(taken.length, limit)
      const others = inFlight.flatMap(integratorsOf)
      assert.deepStrictEqual(others.filter((one) => integratorsOf(taken).includes(one)), [])
      if (taken.length === 0) assert.sameMembers(others, integratorsOf(lanes))
      inFlight.push(taken)
      for (const [key, batches] of waited) waited.set(key, batches + 1)
      for (const lane of inFlight.flat()) waited.set(laneKeyOf(lane), 0)
      assert.isAtMost(Math.max(...waited.values()), 3 * maxParallel + 2 * (rounds - 1))
    }
  })
})

layer(liveMoneyLayer, { excludeTestServices: true })("lanes that a scan found", (it) => {
  it.effect("are scanned again when the last scan is old or batches are not full", () =>
    Effect.gen(function*() {
      const [first, second] = [yield* setUp(), yield* setUp()]
      const state = new ScanState()
      const found = Effect.map(findLanes(state, maxLanes), (lanes) => {
        const ids = lanes.map(({ integratorId }) => integratorId)
        return [first, second].map(({ integratorId }) => ids.includes(integratorId))
      })
      yield* first.send()
      assert.deepStrictEqual(yield* found, [true, false])
      yield* second.send()
      state.isBatchFull = true
      state.knownUntilNanos = 2n ** 62n
      assert.deepStrictEqual(yield* found, [true, false])
      state.knownUntilNanos = 0n
      assert.deepStrictEqual(yield* found, [true, true])
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM spend_event_queue WHERE integrator_id = ${second.integratorId}`
      state.knownUntilNanos = 2n ** 62n
      assert.deepStrictEqual(yield* found, [true, true])
      state.isBatchFull = false
      assert.deepStrictEqual(yield* found, [true, false])
    }))

  it.effect("are forgotten when a step puts an integrator into quarantine: it may have others of its lanes", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM spend_event_queue`
      const integrators = [yield* setUp(), yield* setUp(), yield* setUp()]
      for (const { integratorId, send } of integrators) {
        yield* send()
        yield* Effect.asVoid(failInserts("rewards", integratorId))
      }
      const scan = new ScanState()
      const limit = new BatchLimit()
      limit.lanes = 1
      const programs = yield* Programs
      const joint = { programs, scan, limit, weights: new EventWeights(), onQuarantined: () => undefined }
      // of what the scan finds, the step takes one lane and leaves others
      yield* processNext(joint)
      const states = yield* Effect.forEach(integrators, ({ integratorId }) => quarantineOf(integratorId))
      assert.lengthOf(states.filter((state) => state?.reason === "failing"), 1)
      assert.deepStrictEqual([scan.left, scan.known], [[], []])
    }))

  it.effect("of an integrator that goes into quarantine are not processed as parts of an exceeded batch any more", () =>
    Effect.gen(function*() {
      const { integratorId, send } = yield* setUp()
      yield* send()
      yield* Effect.asVoid(failInserts("rewards", integratorId))
      const limit = new BatchLimit()
      // batches that were in flight at once
      for (const lanes of [lanesOf(integratorId, laneCount), lanesOf(integratorId, 1), lanesOf("other", 1)]) {
        limit.recordExceeded(lanes)
      }
      const programs = yield* Programs
      const shared = { programs, scan: new ScanState(), weights: new EventWeights() }
      yield* processNext({ ...shared, limit, onQuarantined: () => undefined })
      assert.strictEqual((yield* quarantineOf(integratorId))?.reason, "failing")
      const left = [1, 2, 3, 4].map(() => limit.nextSuspects())
      assert.deepStrictEqual(left, [undefined, lanesOf("other", 1), undefined, undefined])
    }))
})
