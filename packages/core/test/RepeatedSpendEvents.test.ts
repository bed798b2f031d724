import { Enabled } from "@card-rewards/core/Metrics"
import { IntegratorId } from "@card-rewards/domain/Ids"
import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { printTimestamp } from "@card-rewards/domain/Time"
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Tracer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ahead, cents, event, newUser, outcomeOf, services, setUp, storedEvents, times } from "./CountedInserts.ts"
import { startMillis } from "./TestLayer.ts"

/** The most statements that one batch takes in these tests. */
const maxStatements = 2

/** Sends a list twice, to a service that expects only new events and to one that does not, and compares outcomes. */
const assertOutcomes = Effect.fnUntraced(function*(
  listOf: (integratorId: IntegratorId) => ReadonlyArray<SpendEvent>,
  outcomes: ReadonlyArray<string>,
  again: ReadonlyArray<string>,
  stored: ReadonlyArray<readonly [id: string, cents: number]>
) {
  const { integratorId, statements, submitAll } = yield* setUp()
  assert.deepStrictEqual((yield* submitAll(listOf(integratorId))).map(outcomeOf), outcomes)
  assert.isAtMost(statements(), maxStatements)
  assert.deepStrictEqual(yield* storedEvents(integratorId), stored)
  assert.deepStrictEqual((yield* submitAll(listOf(integratorId))).map(outcomeOf), again)
  assert.isAtMost(statements(), 2 * maxStatements)
  const other = yield* newUser
  assert.deepStrictEqual((yield* submitAll(listOf(other))).map(outcomeOf), outcomes)
  assert.isAtMost(statements(), 3 * maxStatements)
  assert.deepStrictEqual(yield* storedEvents(other), stored)
})

layer(services)("repeated events of one list take two statements at most", (it) => {
  it.effect("where all are equal, and the post of another integrator waits for no more of them", () =>
    Effect.gen(function*() {
      const { integratorId, statements, submit, submitAll } = yield* setUp()
      const other = yield* newUser
      const list = yield* Effect.forkChild(submitAll(times(500, () => event(integratorId, "t"))))
      const beside = yield* Effect.forkChild(Effect.andThen(submit(event(other, "beside")), Effect.sync(statements)))
      assert.isAtMost(yield* Fiber.join(beside), 2 * maxStatements)
      assert.deepStrictEqual(
        (yield* Fiber.join(list)).map(outcomeOf),
        ["stored", ...times(499, () => "duplicate")]
      )
      assert.isAtMost(statements(), 2 * maxStatements)
      assert.deepStrictEqual(yield* storedEvents(integratorId), [["t", 10_000]])
    }))

  it.effect("where each of a user's events is followed by an equal one", () =>
    assertOutcomes(
      (integratorId) => times(500, (index) => event(integratorId, `t${index >> 1}`)),
      times(250, () => ["stored", "duplicate"]).flat(),
      times(500, () => "duplicate"),
      times(250, (index) => [`t${index}`, 10_000])
    ))

  it.effect("where each of a user's events is followed by one with other content, which is a conflict", () =>
    assertOutcomes(
      (integratorId) => times(500, (index) => event(integratorId, `t${index >> 1}`, cents(index))),
      times(250, () => ["stored", "SpendEventConflict"]).flat(),
      times(250, () => ["duplicate", "SpendEventConflict"]).flat(),
      times(250, (index) => [`t${index}`, 2 * index])
    ))

  it.effect("where one is refused, the next of its identity is stored, and the user's others come after that one", () =>
    assertOutcomes(
      (integratorId) =>
        times(125, (index) => [
          event(integratorId, `t${index}`, { ...ahead, ...cents(1) }),
          event(integratorId, `t${index}`, cents(2)),
          event(integratorId, `t${index}`, { ...ahead, ...cents(1) }),
          event(integratorId, `t${index}`, cents(2))
        ]).flat(),
      times(125, () => ["EventInFuture", "stored", "SpendEventConflict", "duplicate"]).flat(),
      times(125, () => ["SpendEventConflict", "duplicate", "SpendEventConflict", "duplicate"]).flat(),
      times(125, (index) => [`t${index}`, 2])
    ))

  it.effect("where all have one identity and different content", () =>
    assertOutcomes(
      (integratorId) =>
        times(500, (index) => event(integratorId, "t", { ...cents(index), ...(index < 100 ? ahead : {}) })),
      times(500, (index) => index < 100 ? "EventInFuture" : index === 100 ? "stored" : "SpendEventConflict"),
      times(500, (index) => index === 100 ? "duplicate" : "SpendEventConflict"),
      [["t", 100]]
    ))

  it.effect("where the user is not enrolled", () => {
    const outcomes = times(250, () => ["EventInFuture", "UserNotEnrolled"]).flat()
    return assertOutcomes(
      (integratorId) =>
        times(500, (index) => event(integratorId, "t", { userId: "nobody", ...(index % 2 === 0 ? ahead : {}) })),
      outcomes,
      outcomes,
      []
    )
  })

  it.effect.each([
    cents(10_001),
    { amount: { currency: "EUR", amount: "10000" } },
    { merchant: { descriptor: "Other", mcc: "5411" } },
    { merchant: { descriptor: "Shop", mcc: "5412" } },
    { merchant: { descriptor: "Shop", mcc: "5411", mid: "1" } },
    { merchant: { descriptor: "Shop", mcc: "5411", country: "DE" } },
    { occurredAt: printTimestamp(startMillis + 1) },
    { authorizationId: "a1" }
  ])("where one is a conflict by %j, and one spells the same content otherwise", (more) =>
    assertOutcomes(
      (integratorId) => [
        event(integratorId, "a"),
        event(integratorId, "b", more),
        event(integratorId, "a", more),
        event(integratorId, "b"),
        event(integratorId, "a", { amount: { currency: "USD", amount: "0010000" } }),
        event(integratorId, "b", more)
      ],
      ["stored", "stored", "SpendEventConflict", "SpendEventConflict", "duplicate", "duplicate"],
      ["duplicate", "duplicate", "SpendEventConflict", "SpendEventConflict", "duplicate", "duplicate"],
      [["a", 10_000], ["b", Number(event(IntegratorId.make("any"), "b", more).amount.amount)]]
    ))

  it.effect("where they are posts of their own, and the one that is stored is queued with its trace", () =>
    Effect.gen(function*() {
      const arePending = yield* Deferred.make<void>()
      const { integratorId, statements, submit } = yield* setUp((statement) =>
        statement === 1 ? Deferred.await(arePending) : Effect.void)
      const traced = (digit: string, more: object) =>
        submit(event(integratorId, "t", more)).pipe(
          Effect.provideService(
            Tracer.ParentSpan,
            Tracer.externalSpan({ traceId: digit.repeat(32), spanId: digit.repeat(16), sampled: true })
          ),
          Effect.provideService(Enabled, true),
          Effect.result
        )
      const first = yield* Effect.forkChild(submit(event(integratorId, "first")))
      yield* TestClock.adjust(0)
      const posts = yield* Effect.forkChild(Effect.all(
        [traced("1", ahead), traced("2", {}), traced("3", {}), traced("4", cents(1))],
        { concurrency: "unbounded" }
      ))
      yield* TestClock.adjust(0)
      yield* Deferred.succeed(arePending, undefined)
      yield* Fiber.join(first)
      assert.deepStrictEqual(
        (yield* Fiber.join(posts)).map(outcomeOf),
        ["EventInFuture", "stored", "duplicate", "SpendEventConflict"]
      )
      assert.strictEqual(statements(), 2)
      assert.deepStrictEqual(yield* storedEvents(integratorId), [["first", 10_000], ["t", 10_000]])
      const sql = yield* SqlClient.SqlClient
      const queued = yield* sql`SELECT traceparent FROM spend_event_queue
        WHERE integrator_id = ${integratorId} AND traceparent IS NOT NULL`
      assert.lengthOf(queued, 1)
      assert.include(`${queued[0]?.["traceparent"]}`, "2".repeat(32))
    }))
})

layer(services)("repeated events", (it) => {
  it.effect("and the posts beside wait for no transaction that changes the stored ones, as batches do", () =>
    Effect.gen(function*() {
      const { integratorId, statements, submit, submitAll } = yield* setUp()
      const other = yield* newUser
      yield* submit(event(integratorId, "t"))
      const sql = yield* SqlClient.SqlClient
      const [isChanged, areAnswered] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const batch = yield* sql`UPDATE spend_events SET position = 1 WHERE integrator_id = ${integratorId}`.pipe(
        Effect.andThen(Deferred.succeed(isChanged, undefined)),
        Effect.andThen(Deferred.await(areAnswered)),
        sql.withTransaction,
        Effect.forkChild
      )
      yield* Deferred.await(isChanged)
      // the first list takes a statement that expects new events alone, and one that expects others; the second that
      for (const id of ["a", "b"]) {
        const answers = yield* submitAll([event(integratorId, "t"), event(other, id)])
        assert.deepStrictEqual(answers.map(outcomeOf), ["duplicate", "stored"])
      }
      assert.strictEqual(statements(), 1 + 2 + 1)
      yield* Deferred.succeed(areAnswered, undefined)
      yield* Fiber.join(batch)
    }))
})
