import { Audit } from "@card-rewards/core/Audit"
import { value } from "@card-rewards/core/Database"
import { Journal } from "@card-rewards/core/Journal"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { type IntegratorId, Reference, UserId } from "@card-rewards/domain/Ids"
import { sealAll } from "@card-rewards/testing/EventProcessing"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { measured } from "./Reads.ts"
import { readJournal, verifyChain } from "./SealChain.ts"
import { sealFaults } from "./SealFaults.ts"
import { setSlot } from "./SlotState.ts"
import { newIntegrator, startMillis, testLayer } from "./TestLayer.ts"

const services = Layer.mergeAll(Journal.layer, JournalSeals.layer, Audit.layer).pipe(Layer.provideMerge(testLayer))

interface Ids {
  readonly userId: string
  readonly transactionId: string
  readonly reference: string
}

/** Adds entries with these ids, and the rewards that some of them name, to an integrator's journal. */
const addEntries = Effect.fnUntraced(function*(integratorId: IntegratorId, all: ReadonlyArray<Ids>) {
  const sql = yield* SqlClient.SqlClient
  const ids = sql`jsonb_to_recordset(${JSON.stringify(all.map((one, n) => ({ ...one, n: n + 1 })))}::text::jsonb)
    AS i (n int, "userId" text, "transactionId" text, reference text)`
  yield* sql`INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version,
      creation, asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered,
      clawed_back, month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    SELECT v.integrator_id, i."userId", 'clearing', i."transactionId", 'p-' || (v.entries + n), 1, v.entries + n,
      'USDC', 'Pending', now(), 'USD', 100, 0, 1, 1, 0, 0, 0, 0, 0, now(), now(), now(), 1
    FROM vaults v, ${ids} WHERE v.integrator_id = ${integratorId}`
  yield* sql`INSERT INTO journal (integrator_id, entry, recorded_at, asset, from_account, to_account, amount, user_id,
      reward, reference)
    SELECT v.integrator_id, v.entries + n,
      ${value.timestamptz(startMillis)} + n * interval '1 millisecond', 'USDC', 'free', 'pending',
      n, i."userId", CASE WHEN n % 3 > 0 THEN v.entries + n END, CASE WHEN n % 2 = 0 THEN i.reference END
    FROM vaults v, ${ids} WHERE v.integrator_id = ${integratorId}`
  yield* sql`UPDATE vaults SET entries = entries + ${value.int4(all.length)} WHERE integrator_id = ${integratorId}`
})

const plain = (count: number): ReadonlyArray<Ids> =>
  Array.from({ length: count }, (_, n) => ({ userId: `u${n}`, transactionId: `t${n}`, reference: `r${n}` }))

const someIds = Schema.Array(Schema.Struct({ userId: UserId, transactionId: UserId, reference: Reference }))

const hostile = "q\"b\\s/\b\t\n\f\r\u0001\u001f\u007f\u0085é\u2028\u{1f600}\u{10ffff}"
const hostileIds = [...hostile].map((char) => ({
  userId: char,
  transactionId: `${char}${hostile}`,
  reference: `${char}${hostile}`.replaceAll(/\p{Cc}/gu, "")
}))

layer(services)("seals of the journal", (it) => {
  // the first test, while the tables are empty
  it.effect("cost a row for each entry and one for its reward, also where the plan was made for empty tables", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const count = 5_000
      const ids = plain(count).map((one) => ({ ...one, userId: "ann" }))
      const [sealed, { pages, rows }] = yield* sql.withTransaction(Effect.gen(function*() {
        const integratorId = yield* newIntegrator
        for (let time = 0; time < 10; time++) {
          yield* addEntries(integratorId, plain(1))
          yield* TestClock.adjust("1 minute")
          yield* sealAll
        }
        yield* addEntries(integratorId, ids)
        return yield* measured(Effect.andThen(sealAll, (yield* JournalSeals).latest(integratorId)))
      }))
      assert.strictEqual(sealed.toEntry, BigInt(count) + 10n)
      // two of three have a reward
      assert.isAtLeast(rows, (5 / 3) * count)
      assert.isAtMost(rows, 2 * count)
      assert.isAtMost(pages, 10 * count)
    }))

  it.effect.prop(
    "are hashes of the entries as the API shows them, whatever their ids, in any partition",
    [Schema.Array(someIds)],
    ([parts]) =>
      Effect.gen(function*() {
        const integratorId = yield* newIntegrator
        for (const part of [...parts, hostileIds]) {
          yield* addEntries(integratorId, part)
          yield* TestClock.adjust("1 minute")
          yield* sealAll
        }
        const { entries, seals } = yield* verifyChain(integratorId)
        assert.strictEqual(entries.length, parts.flat().length + hostileIds.length)
        assert.strictEqual(seals.length, parts.filter((part) => part.length > 0).length + 1)
        assert.strictEqual(seals.at(-1)?.toEntry, BigInt(entries.length))
      }),
    { arbitrary: { runs: 15 } }
  )

  it.effect("cover at most 1,000 entries each, and an integrator with few new ones gets one in 20 s at most", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const lengths = Effect.map(verifyChain(integratorId), ({ seals }) =>
        seals.map(({ fromEntry, toEntry }) => Number(toEntry - fromEntry) + 1))
      yield* addEntries(integratorId, plain(2_500))
      yield* sealAll
      assert.deepStrictEqual(yield* lengths, [1_000, 1_000, 500])
      yield* addEntries(integratorId, plain(999))
      yield* sealAll
      assert.deepStrictEqual(yield* lengths, [1_000, 1_000, 500])
      yield* addEntries(integratorId, plain(1))
      yield* sealAll
      assert.deepStrictEqual(yield* lengths, [1_000, 1_000, 500, 1_000])
      yield* addEntries(integratorId, plain(1))
      yield* TestClock.adjust("21 seconds")
      yield* sealAll
      assert.deepStrictEqual(yield* lengths, [1_000, 1_000, 500, 1_000, 1])
      // a clock that was ahead when the last one was made postpones none
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE journal_seals SET sealed_at = sealed_at + interval '1 h' WHERE integrator_id = ${integratorId}`
      yield* addEntries(integratorId, plain(1))
      yield* sealAll
      assert.deepStrictEqual(yield* lengths, [1_000, 1_000, 500, 1_000, 1, 1])
    }))

  it.effect("of a backlog are made without a pause, and others have their turns meanwhile", () =>
    Effect.gen(function*() {
      const [large, small] = [yield* newIntegrator, yield* newIntegrator]
      yield* addEntries(large, plain(18_000))
      yield* addEntries(small, plain(3))
      const { latest, sealNext } = yield* JournalSeals
      const sealedOf = (integratorId: IntegratorId) =>
        Effect.map(latest(integratorId), ({ toEntry }) => Number(toEntry))
      // the first step finds them, the second seals each once
      yield* Effect.andThen(sealNext, sealNext)
      assert.deepStrictEqual([yield* sealedOf(large), yield* sealedOf(small)], [1_000, 3])
      // these come after the backlog was found
      yield* addEntries(small, plain(1_000))
      while ((yield* sealedOf(small)) === 3) assert.isTrue(yield* sealNext)
      assert.strictEqual(yield* sealedOf(small), 1_003)
      assert.isBelow(yield* sealedOf(large), 18_000)
      yield* sealAll
      assert.strictEqual(yield* sealedOf(large), 18_000)
    }))

  it.effect("of many integrators cover at most 10,000 entries in one step", () =>
    Effect.gen(function*() {
      const { latest, sealNext } = yield* JournalSeals
      yield* sealAll
      const ids = yield* Effect.replicateEffect(newIntegrator, 12)
      for (const id of ids) yield* addEntries(id, plain(1_000))
      // the first step finds them
      yield* Effect.andThen(sealNext, sealNext)
      const sealed = yield* Effect.forEach(ids, (id) => Effect.option(latest(id)))
      assert.lengthOf(sealed.filter(Option.isSome), 10)
      yield* sealAll
      for (const id of ids) assert.strictEqual((yield* latest(id)).toEntry, 1_000n)
    }))

  it.effect("are made once, also where another process makes those that this one is about to", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const { latest, sealNext } = yield* JournalSeals
      yield* addEntries(integratorId, plain(3))
      yield* sealNext
      yield* Effect.provide(sealAll, Layer.fresh(JournalSeals.layer))
      yield* sealAll
      assert.deepInclude(yield* latest(integratorId), { seal: 1n, fromEntry: 1n, toEntry: 3n })
    }))

  it.effect("are listed page by page, and the last one is found without them", () =>
    Effect.gen(function*() {
      const { latest, list } = yield* JournalSeals
      const integratorId = yield* newIntegrator
      assert.strictEqual((yield* Effect.flip(latest(integratorId)))._tag, "NotFound")
      assert.deepStrictEqual(yield* list(integratorId, { after: 7n, limit: 2 }), { seals: [], next: 7n })
      yield* addEntries(integratorId, plain(2_001))
      yield* sealAll
      const first = yield* list(integratorId, { after: 0n, limit: 2 })
      const second = yield* list(integratorId, { after: first.next, limit: 2 })
      assert.deepStrictEqual([...first.seals, ...second.seals].map(({ toEntry }) => toEntry), [1_000n, 2_000n, 2_001n])
      assert.deepStrictEqual(second, { seals: [yield* latest(integratorId)], next: 3n })
      assert.isTrue(second.seals[0]?.at === startMillis)
    }))

  it.effect("miss no entry: none has a number before the first one, or a time that is printed as another", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const integratorId = yield* newIntegrator
      yield* addEntries(integratorId, plain(1))
      for (const set of ["entry = 0", "entry = -1", "recorded_at = '2026-12-01T00:00:00Z BC'"]) {
        const changed = sql`UPDATE journal SET ${sql.literal(set)} WHERE integrator_id = ${integratorId}`
        assert.include(String((yield* Effect.flip(changed)).reason.cause), "violates check constraint")
      }
    }))

  it.effect("are not made over a gap of the journal", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const { list } = yield* JournalSeals
      const integratorId = yield* newIntegrator
      yield* addEntries(integratorId, plain(3))
      yield* sql`DELETE FROM journal WHERE integrator_id = ${integratorId} AND entry = 2`
      yield* sealAll
      assert.deepStrictEqual((yield* list(integratorId, { after: 0n, limit: 1 })).seals, [])
      assert.strictEqual((yield* readJournal(integratorId)).length, 2)
    }))

  it.effect.each(["leaving", "left"] as const)("are neither looked for nor made while the slot is %s", (state) =>
    Effect.gen(function*() {
      const { latest, sealNext } = yield* JournalSeals
      const integratorId = yield* newIntegrator
      const [give, take] = [setSlot(integratorId, state), setSlot(integratorId, "owned")]
      const stepsOfPass = Effect.gen(function*() {
        let steps = 1
        while (yield* sealNext) steps++
        return steps
      })
      yield* sealAll
      const steps = yield* stepsOfPass
      yield* Effect.andThen(addEntries(integratorId, plain(3)), give)
      assert.strictEqual(yield* stepsOfPass, steps)
      // a step that finds them before the move begins
      yield* Effect.andThen(take, sealNext)
      yield* Effect.andThen(give, sealAll)
      assert.strictEqual((yield* Effect.flip(latest(integratorId)))._tag, "NotFound")
      yield* Effect.andThen(take, sealAll)
      assert.strictEqual((yield* latest(integratorId)).toEntry, 3n)
    }))
})

// over a database of its own: each audit reads all entries
layer(services)("the audit of seals", (it) => {
  it.effect.each(sealFaults)("finds %s", ([, plant, expected]) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const integratorId = yield* newIntegrator
      for (let seal = 0; seal < 3; seal++) {
        yield* addEntries(integratorId, plain(4))
        yield* TestClock.adjust("1 minute")
        yield* sealAll
      }
      const found = Effect.map(audit.run, ({ findings }) =>
        findings.filter((one) => one.integratorId === integratorId && /seal/.test(one.check))
          .map(({ check, subject }) => `${subject}: ${check}`))
      assert.deepStrictEqual(yield* found, [])
      for (const statement of plant.replaceAll("$i", `'${integratorId}'`).split("; ")) yield* sql.unsafe(statement)
      assert.deepStrictEqual(yield* found, expected)
    }))

  it.effect("finds those that are late by an hour", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      yield* addEntries(integratorId, plain(4))
      yield* sealAll
      yield* addEntries(integratorId, plain(2))
      const found = Effect.map((yield* Audit).run, ({ findings }) =>
        findings.filter((one) => one.integratorId === integratorId && /within an hour/.test(one.check)))
      yield* TestClock.adjust("59 minutes")
      assert.deepStrictEqual(yield* found, [])
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual((yield* found).map(({ subject }) => subject), ["entries 5 to 6"])
      // the cell that the slot moved to seals them
      yield* setSlot(integratorId, "left")
      assert.deepStrictEqual(yield* found, [])
      yield* Effect.andThen(setSlot(integratorId, "owned"), sealAll)
      assert.deepStrictEqual(yield* found, [])
    }))
})
