import { Audit } from "@card-rewards/core/Audit"
import { StepMillis } from "@card-rewards/core/Database"
import { decideParts } from "@card-rewards/core/Processing/Batch"
import { EventWeights, maxUnits } from "@card-rewards/core/Processing/Budget"
import { Groups } from "@card-rewards/core/Processing/Groups"
import { readDependents } from "@card-rewards/core/Processing/Load"
import { eventKey, type State, type StoredEvent } from "@card-rewards/core/Processing/State"
import * as Unearned from "@card-rewards/core/Processing/Unearned"
import { CachedPrograms, Catalog } from "@card-rewards/core/Programs/Catalog"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { processEvents, quarantineOf, rewardCount, setUp, notApplied } from "./Quarantined.ts"
import { measured } from "./Reads.ts"
import { liveMoneyLayer, moneyLayer } from "./Spending.ts"
import { startMillis } from "./TestLayer.ts"

const event = (integratorId: string, arrival: bigint): StoredEvent => ({
  integratorId: IntegratorId.make(integratorId),
  userId: "ann",
  kind: "authorization",
  externalTransactionId: `e${arrival}`,
  lane: 0,
  arrival,
  currency: "USD",
  cents: 100n,
  mcc: "5411",
  occurredAt: 0,
  originalId: null,
  position: null,
  ctid: 0,
  xmin: 0,
  record: 1n
})

const taken = {
  tier: null,
  segment: null,
  record: null,
  country: null,
  segmentCtid: 0,
  segmentXmin: 0,
  segmentEvents: 1,
  ordinal: 1,
  traceparent: null,
  hasDependents: true,
  programsRevision: 0n
}

const noPrograms = (integratorId: string) => new Catalog(new CachedPrograms(IntegratorId.make(integratorId)))

/** Decides parts with these numbers of authorizations. `catalogOf` is called when an event is decided. */
const decide = (
  sizes: Readonly<Record<string, number>>,
  catalogOf: (integratorId: string) => Catalog,
  budget: number
) => {
  const programs = new class extends Map<string, Catalog> {
    override get(integratorId: string) {
      return catalogOf(integratorId)
    }
  }()
  const parts = Object.entries(sizes).map(([name, size]) => ({
    integratorId: IntegratorId.make(name),
    queued: Array.from({ length: size }, (_, index) => event(name, BigInt(index))),
    maxDependents: 1_000
  }))
  const { failed, outcome, work } = decideParts(emptyState(programs), parts, budget)
  const applied = Object.keys(sizes).map((name) => outcome.applied.filter((one) => one.integratorId === name).length)
  return { applied, failed: [...failed.keys()], served: [...work.keys()] }
}

const emptyState = (programs: State["programs"]): State => ({
  authorizations: new Map(),
  clearings: new Map(),
  groups: new Groups(),
  waiting: new Map(),
  partlyApplied: new Map(),
  programs,
  unearned: new Unearned.Lists(),
  evaluated: { campaigns: 0 }
})

it("later events of a user stay queued while one has dependents that a batch may not apply any more", () => {
  const [first, later, others] = [event("a", 1n), event("a", 4n), { ...event("a", 5n), userId: "bob" }]
  const increments = [2n, 3n].map((arrival): StoredEvent =>
    ({ ...event("a", arrival), kind: "incremental_authorization", originalId: first.externalTransactionId }))
  const state = emptyState(new Map([["a", noPrograms("a")]]))
  state.waiting.set(eventKey(first), increments)
  const part = { integratorId: first.integratorId, queued: [first, later, others], maxDependents: 1 }
  const { applied, done } = decideParts(state, [part]).outcome
  assert.deepStrictEqual(applied.map(({ arrival }) => arrival), [1n, 2n, 5n])
  assert.deepStrictEqual(done, [others])
})

it("integrators share a budget equally; what one leaves goes to the next ones", () => {
  assert.deepStrictEqual(decide({ a: 1, b: 100, c: 100 }, noPrograms, 21).applied, [1, 10, 10])
  assert.deepStrictEqual(decide({ a: 100 }, noPrograms, 21).applied, [21])
})

it("each integrator is served at least one event until the budget is used up; the others are not served", () => {
  const { applied, served } = decide({ a: 2, b: 2, c: 2, d: 2 }, noPrograms, 3)
  assert.deepStrictEqual(applied, [1, 1, 1, 0])
  assert.deepStrictEqual(served, ["a", "b", "c"])
})

it("a decision that throws fails one integrator; the others share the budget", () => {
  const broken = (integratorId: string): Catalog => {
    if (integratorId === "b") throw new Error("broken")
    return noPrograms(integratorId)
  }
  const decided = decide({ a: 4, b: 4, c: 9 }, broken, 12)
  assert.deepStrictEqual(decided, { applied: [4, 0, 8], failed: ["b"], served: ["a", "c"] })
})

it("the weight of an integrator follows the units of its recent events, within bounds", () => {
  const weights = new EventWeights()
  for (let batch = 0; batch < 10; batch++) weights.observe("heavy", 5_100, 1)
  assert.isAtLeast(weights.of("heavy"), 100)
  assert.isAtMost(weights.of("heavy"), 101)
  for (let batch = 0; batch < 10; batch++) weights.observe("heavy", 0, 10)
  assert.closeTo(weights.of("heavy"), 1, 0.2)
  assert.strictEqual(weights.of("other"), 2)
})

layer(moneyLayer)("the budget of a batch", (it) => {
  it.effect("keeps a flood under 50 programs from delaying other integrators, whatever lanes it fills", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const programs = 50
      const flooding = yield* setUp({ users: 20, programs })
      const innocent = yield* setUp()
      // each makes 51 units: more than three batches take, whichever integrator they serve first
      yield* Effect.forEach(flooding.userIds, (userId) =>
        Effect.replicateEffect(flooding.send({}, userId), 7), { concurrency: 20 })
      yield* processEvents
      const first = yield* rewardCount(flooding.integratorId)
      assert.isAtLeast(first, programs)
      assert.isAtMost(first, maxUnits + programs)
      yield* innocent.send()
      yield* processEvents
      yield* processEvents
      assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
      assert.isAtMost(yield* rewardCount(flooding.integratorId), 3 * (maxUnits + programs))
      assert.isNotEmpty(yield* notApplied(flooding.integratorId))
    }))

  it.effect("applies an event's dependents in several transactions, before the next event of the user", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const sql = yield* SqlClient.SqlClient
      const [waiting, programs] = [120, 40]
      const cascade = yield* setUp({ programs })
      const innocent = yield* setUp()
      // loads its programs into memory
      yield* innocent.send()
      const of = { authorizationId: "a" }
      yield* Effect.forEach(Array.from({ length: waiting }), (_, index) =>
        cascade.send({ externalTransactionId: `c${index}`, ...of }))
      while ((yield* processEvents) > 0);
      assert.strictEqual(yield* rewardCount(cascade.integratorId), 0)
      yield* cascade.send({ kind: "authorization", externalTransactionId: "a" })
      yield* cascade.send({ externalTransactionId: "next" })
      let batches = 0
      while ((yield* processEvents) > 0) {
        batches += 1
        // an integrator behind the heavy one is served by the next batch
        if (batches === 1) yield* innocent.send()
        if (batches === 2) assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
      }
      assert.isAtLeast(batches, 3)
      assert.strictEqual(yield* rewardCount(cascade.integratorId), (waiting + 1) * programs)
      const order = yield* sql<{ id: string }>`SELECT external_transaction_id AS id FROM spend_events
        WHERE integrator_id = ${cascade.integratorId} ORDER BY position`
      assert.deepStrictEqual(
        order.map(({ id }) => id),
        ["a", ...Array.from({ length: waiting }, (_, index) => `c${index}`), "next"]
      )
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }))

  it.effect("bounds how many dependents a transaction reads, however many wait", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const [waiting, limit] = [300, 10]
      const { integratorId, send } = yield* setUp()
      yield* Effect.replicateEffect(send({ authorizationId: "e0" }), waiting, { concurrency: 50, discard: true })
      while ((yield* processEvents) > 0);
      const authorization = { ...event(integratorId, 0n), ...taken, userId: "user-0" }
      const [{ areAllRead, waiting: read }, { rows }] = yield* measured(readDependents([authorization], limit))
      assert.isFalse(areAllRead)
      assert.deepStrictEqual([...read.values()].map(({ length }) => length), [limit + 1])
      // an entry and a row of each of the two tables
      assert.isAtMost(rows, 4 * (limit + 1))
    }))

  it.effect("is shared by integrators whose events have more dependents than one batch applies", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(startMillis)
      const waiting = 520
      const heavy = [yield* setUp(), yield* setUp()]
      const innocent = yield* setUp()
      for (const { send } of heavy) {
        const clearing = send({ authorizationId: "a" })
        yield* Effect.replicateEffect(clearing, waiting, { concurrency: 50, discard: true })
      }
      while ((yield* processEvents) > 0);
      for (const { send } of heavy) yield* send({ kind: "authorization", externalTransactionId: "a" })
      yield* innocent.send()
      yield* processEvents
      assert.deepStrictEqual(yield* notApplied(innocent.integratorId), [])
      while ((yield* processEvents) > 0);
      for (const { integratorId } of heavy) assert.strictEqual(yield* rewardCount(integratorId), waiting)
    }))
})

layer(liveMoneyLayer, { excludeTestServices: true })("a batch that is not done in time", (it) => {
  it.effect("is followed by smaller ones, until the integrator that takes too long is alone and quarantined", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [culprit, innocent] = [yield* setUp(), yield* setUp()]
      yield* sql.unsafe(`CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.integrator_id = '${culprit.integratorId}' THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END $$`)
      yield* sql`CREATE TRIGGER stall BEFORE INSERT ON rewards FOR EACH ROW EXECUTE FUNCTION stall()`
      yield* culprit.send()
      yield* innocent.send()
      const messages = new Set<string>()
      let steps = 0
      const isIsolated = Effect.map(
        Effect.zip(quarantineOf(culprit.integratorId), notApplied(innocent.integratorId)),
        ([quarantined, left]) => quarantined !== undefined && left.length === 0
      )
      while (!(yield* isIsolated)) {
        assert.isBelow(steps++, 30)
        yield* processEvents.pipe(
          Effect.provideService(StepMillis, 1_500),
          Effect.catchTag("Unavailable", ({ message }) => Effect.sync(() => messages.add(message)))
        )
      }
      assert.isAtLeast(messages.size, 1)
      for (const message of messages) assert.match(message, /^The batch was not done within 1500 ms/)
      assert.match((yield* quarantineOf(culprit.integratorId))?.error ?? "", /not done within/)
    }))
})
