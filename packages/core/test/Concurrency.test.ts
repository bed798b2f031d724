import { Audit } from "@card-rewards/core/Audit"
import { Integrators } from "@card-rewards/core/Integrators"
import { Journal } from "@card-rewards/core/Journal"
import { JournalSeals, SealPauseMillis } from "@card-rewards/core/JournalSeals"
import { Processing } from "@card-rewards/core/Processing"
import { lockedLane } from "@card-rewards/core/Processing/Save"
import { lockLanes } from "@card-rewards/core/Processing/Take"
import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { dayMillis, instant } from "@card-rewards/domain/Time"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Layer, Predicate, Schedule, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { verifyChain } from "./SealChain.ts"
import { liveMoneyLayer } from "./Spending.ts"

const users = Array.from({ length: 40 }, (_, index) => UserId.make(`user-${index}`))
const integratorIds = ["one", "two", "three"].map((name) => IntegratorId.make(name))

/** Repeats a request while the service is Unavailable, as a client does. */
const patiently = <A, E, R>(request: Effect.Effect<A, E, R>) =>
  Effect.retry(request, { while: (error) => Predicate.isTagged(error, "Unavailable"), times: 30 })

const setUp = Effect.fnUntraced(function*(id: IntegratorId) {
  const { create } = yield* Integrators
  const { put } = yield* Users
  const { publish } = yield* Programs
  const { set } = yield* SandboxClock
  yield* create(id)
  yield* Effect.forEach(users, (user) => put(id, user, {}), { concurrency: 4 })
  const now = yield* Clock.currentTimeMillis
  yield* publish(id, ProgramId.make("base"), 1, definition(now + 400_000, { holdingPeriodDays: 1 }), [])
  yield* set(id, instant(now + 500_000))
})

/** One step of each of a worker's fibers. */
const workerStep = Effect.gen(function*() {
  const { matureRewards, processEvents, retryQuarantined } = yield* Processing
  return (yield* processEvents) + (yield* retryQuarantined) + (yield* matureRewards)
})

/** Works until the queue is empty: a step that finds no work may have skipped lanes that another worker has locked. */
const processToEnd = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  do while ((yield* workerStep) > 0);
  while ((yield* sql`SELECT 1 FROM spend_event_queue LIMIT 1`).length > 0)
})

/** Seals new entries at once, as one process of several. */
const sealer = Effect.gen(function*() {
  const { sealNext } = yield* JournalSeals
  return yield* Effect.forever(Effect.provideService(sealNext, SealPauseMillis, -1))
}).pipe(Effect.provide(Layer.fresh(JournalSeals.layer)))

layer(liveMoneyLayer, { excludeTestServices: true })("several workers and clients at once", (it) => {
  it.effect("apply every event exactly once, whichever worker processes it", () =>
    Effect.gen(function*() {
      const events = yield* SpendEvents
      const vault = yield* Vault
      const clock = yield* SandboxClock
      const rewards = yield* Rewards
      yield* Effect.forEach(integratorIds, setUp, { concurrency: 3 })
      const workers = yield* Effect.forEach([1, 2, 3, 4], () =>
        Effect.forkChild(Effect.forever(workerStep)))
      const sealers = yield* Effect.forEach([1, 2], () => Effect.forkChild(sealer))
      yield* Effect.forEach(integratorIds, (integratorId) =>
        Effect.gen(function*() {
          const { now } = yield* clock.get(integratorId)
          const send = (userId: UserId, kind: string, id: string, cents: number, more: object = {}) =>
            patiently(events.submit(
              spendEvent(integratorId, userId, now, { kind, externalTransactionId: id, amount: usd(cents), ...more })
            ))
          yield* Effect.forEach(users, (userId, index) =>
            Effect.all([
              send(userId, "refund", "r1", 1_000, { originalTransactionId: "c1" }),
              send(userId, "clearing", "c1", 10_000, { authorizationId: "a1" }),
              send(userId, "authorization", "a1", 10_000),
              send(userId, "clearing", "c2", 5_000),
              send(userId, "clearing", "c2", 5_000),
              send(userId, "authorization", "a2", 7_000),
              patiently(vault.deposit(integratorId, {
                reference: Reference.make(`d${index}`),
                amount: { asset: "USDC", amount: 1_400_000n }
              }))
            ], { concurrency: "unbounded" }), { concurrency: 8 })
          yield* clock.set(integratorId, instant(now + dayMillis))
          yield* Effect.forEach(users, (userId, index) =>
            Effect.retry(
              vault.claim(integratorId, {
                reference: Reference.make(`p${index}`),
                userId,
                amount: { asset: "USDC", amount: 1_400_000n }
              }),
              { schedule: Schedule.spaced("50 millis"), times: 600 }
            ), { concurrency: 8 })
        }), { concurrency: 3 })
      yield* Effect.forEach(workers, Fiber.interrupt)
      yield* Effect.forEach(sealers, Fiber.interrupt)
      yield* processToEnd
      for (const integratorId of integratorIds) {
        const { seals } = yield* Effect.provide(verifyChain(integratorId), Journal.layer)
        assert.isAbove(seals.length, 0)
        for (const userId of users) {
          const { balances: [usdc] } = yield* rewards.balance(integratorId, userId)
          assert.deepStrictEqual(usdc, {
            asset: "USDC",
            expected: "700000",
            pending: "0",
            claimable: "0",
            paid: "1400000",
            owed: "0",
            awaitingFunding: "0"
          })
        }
        assert.deepStrictEqual((yield* vault.get(integratorId)).balances[0], { asset: "USDC", held: 0n, free: 0n })
      }
      const audit = yield* Audit
      assert.deepStrictEqual((yield* audit.run).findings, [])
    }))

  it.effect("take a lane that they have waited for as the one before has left it", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const integratorId = IntegratorId.make("waited-for")
      yield* setUp(integratorId)
      const read = Effect.map(
        sql`SELECT ${lockedLane.of("l")} FROM lanes l WHERE integrator_id = ${integratorId} AND lane = 3`.values,
        (values) => lockedLane.rows(values)
      )
      const lock = Effect.map(lockLanes([{ integratorId, lane: 3 }], "wait"), (taken) =>
        taken.map((lane) => Struct.omit(lane, ["epoch"])))
      const before = yield* read
      const held = yield* Deferred.make<void>()
      const awaited = yield* Deferred.make<void>()
      const holding = yield* Effect.forkChild(sql.withTransaction(Effect.gen(function*() {
        yield* sql`SET LOCAL idle_in_transaction_session_timeout = 0`
        assert.deepStrictEqual(yield* lock, before)
        yield* sql`UPDATE lanes SET position = position WHERE integrator_id = ${integratorId} AND lane = 3`
        yield* Deferred.succeed(held, undefined)
        yield* Deferred.await(awaited)
      })))
      yield* Deferred.await(held)
      // on a busy machine the wait may time out between two polls
      const waiting = yield* Effect.forkChild(Effect.retry(sql.withTransaction(Effect.zip(lock, read)), { times: 100 }))
      const lockWaits = sql`SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`
      while ((yield* lockWaits).length === 0);
      yield* Deferred.succeed(awaited, undefined)
      yield* Fiber.join(holding)
      const [taken, now] = yield* Fiber.join(waiting)
      assert.deepStrictEqual(taken, now)
      assert.notDeepEqual(now, before)
    }))

  it.effect("make one chain of seals where all seal the same journal at once", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const integratorId = IntegratorId.make("sealed")
      yield* (yield* Integrators).create(integratorId)
      yield* sql`INSERT INTO journal (integrator_id, entry, recorded_at, asset, from_account, to_account, amount)
        SELECT ${integratorId}, n, now(), 'USDC', 'world', 'free', n FROM generate_series(1, 7500) n`
      yield* sql`UPDATE vaults SET entries = 7500 WHERE integrator_id = ${integratorId}`
      const pass = Effect.flatMap(JournalSeals, ({ sealNext }) =>
        Effect.repeat(sealNext, { while: (more) => more })).pipe(Effect.provide(Layer.fresh(JournalSeals.layer)))
      // a process whose seal another one has stored leaves the rest to its next pass
      const all = Effect.all(Array.from({ length: 8 }, () => pass), { concurrency: "unbounded" })
      yield* Effect.replicateEffect(all, 8)
      const { seals } = yield* Effect.provide(verifyChain(integratorId), Journal.layer)
      assert.deepStrictEqual([seals.length, seals.at(-1)?.toEntry], [8, 7_500n])
      yield* sql`DELETE FROM journal WHERE integrator_id = ${integratorId}`
      yield* sql`DELETE FROM journal_seals WHERE integrator_id = ${integratorId}`
      yield* sql`UPDATE vaults SET entries = 0 WHERE integrator_id = ${integratorId}`
    }))

  it.effect("result in the same balances as one worker and one client in sequence", () =>
    Effect.gen(function*() {
      const rewards = yield* Rewards
      const clock = yield* SandboxClock
      const { deposit, get } = yield* Vault
      const [alone, together] = [IntegratorId.make("alone"), IntegratorId.make("together")]
      yield* Effect.forEach([alone, together], setUp, { concurrency: 2 })
      const some = users.slice(0, 20)
      /** The sequence of each user; users are independent of each other, since the vault has enough money for all. */
      const play = Effect.fnUntraced(function*(integratorId: IntegratorId, clients: number) {
        const { now } = yield* clock.get(integratorId)
        const perUser = (round: number) =>
          Effect.forEach(some, (userId, index) =>
            Effect.gen(function*() {
              for (const step of sequence(index, round)) yield* patiently(submit(integratorId, userId, now, step))
              yield* patiently(deposit(integratorId, move(`${userId}-${round}`, 900_000n)))
            }), { concurrency: clients })
        yield* deposit(integratorId, move("first", 10n ** 9n))
        yield* perUser(1)
        yield* processToEnd
        yield* clock.set(integratorId, instant(now + dayMillis))
        yield* Effect.forEach(some, (userId) => patiently(claimHalf(integratorId, userId)), { concurrency: clients })
        yield* perUser(2)
        yield* processToEnd
        yield* clock.set(integratorId, instant(now + 3 * dayMillis))
        yield* processToEnd
      })
      yield* play(alone, 1)
      const workers = yield* Effect.forEach([1, 2, 3, 4], () =>
        Effect.forkChild(Effect.forever(workerStep)))
      yield* play(together, 16)
      yield* Effect.forEach(workers, Fiber.interrupt)
      for (const userId of some) {
        assert.deepStrictEqual(yield* rewards.balance(together, userId), yield* rewards.balance(alone, userId))
      }
      assert.deepStrictEqual((yield* get(together)).balances, (yield* get(alone)).balances)
      assert.deepStrictEqual((yield* (yield* Audit).run).findings, [])
    }))
})

const move = (reference: string, amount: bigint) => ({
  reference: Reference.make(reference),
  amount: { asset: "USDC" as const, amount }
})

interface Step {
  readonly kind: string
  readonly id: string
  readonly cents: number
  readonly more?: object
}

/** The events of a user in a round, some of them before their originals. */
const sequence = (index: number, round: number): ReadonlyArray<Step> => {
  const [a, c, d] = [`a${round}`, `c${round}`, `d${round}`]
  const size = 1_000 + (index * 977 + round * 331) % 9_000
  return [
    { kind: "refund", id: `r${round}`, cents: size >> 1, more: { originalTransactionId: c } },
    { kind: "clearing", id: c, cents: size, more: { authorizationId: a } },
    { kind: "authorization", id: a, cents: size },
    { kind: "clearing", id: d, cents: size * 3 },
    {
      kind: "refund",
      id: `s${round}`,
      cents: size * (index % 3 + 1),
      more: { originalTransactionId: round === 1 ? d : "d1" }
    },
    { kind: "authorization", id: `b${round}`, cents: size }
  ]
}

const submit = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, now: number, step: Step) {
  const { cents, id, kind, more } = step
  return yield* (yield* SpendEvents).submit(
    spendEvent(integratorId, userId, now, { kind, externalTransactionId: id, amount: usd(cents), ...more })
  )
})

/** Claims half of the claimable money, if there is any, so that some refunds come after the payment. */
const claimHalf = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const { balances: [usdc] } = yield* (yield* Rewards).balance(integratorId, userId)
  const amount = BigInt(usdc?.claimable ?? 0) / 2n
  if (amount === 0n) return
  yield* (yield* Vault).claim(integratorId, { ...move(`half of ${userId}`, amount), userId })
})
