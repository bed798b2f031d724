import { columns, value } from "@card-rewards/core/Database"
import { Integrators } from "@card-rewards/core/Integrators"
import { attributesAt } from "@card-rewards/core/Users/AttributeHistory"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { measured } from "./Reads.ts"
import { liveLayer, startMillis } from "./TestLayer.ts"

const integratorId = IntegratorId.make("history")

interface Stored {
  readonly userId: string
  readonly arrival: number
  readonly storedAt: number
}

/** Adds users and their attribute records; each record's tier is its arrival. */
const insert = Effect.fnUntraced(function*(records: ReadonlyArray<Stored>) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO users (integrator_id, user_id, enrolled_at, updated_at)
    SELECT DISTINCT ${integratorId}, user_id, now(), now()
    FROM unnest(${columns.text(records.map(({ userId }) => userId))}) user_id ON CONFLICT DO NOTHING`
  yield* sql`INSERT INTO user_attributes (integrator_id, user_id, arrival, stored_at, tier)
    SELECT ${integratorId}, t.*, t.arrival::text FROM unnest(${columns.text(records.map(({ userId }) => userId))},
      ${columns.int8(records.map(({ arrival }) => BigInt(arrival)))},
      ${columns.timestamptz(records.map(({ storedAt }) => startMillis + storedAt))}) AS t(user_id, arrival, stored_at)`
})

/** Every order of at most `length` records of one user, with none, one or two milliseconds between any two. */
const histories = (length: number): ReadonlyArray<ReadonlyArray<number>> => {
  const shorter = length === 1 ? [] : histories(length - 1)
  const longest = length === 1
    ? [[0]]
    : shorter.filter((times) => times.length === length - 1).flatMap((times) =>
      [0, 1, 2].map((gap) => [...times, (times.at(-1) ?? 0) + gap]))
  return [...shorter, ...longest]
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

const recordOfPurchase = attributesAt("t")

/** The tier of a user at a purchase. */
const tierAt = Effect.fnUntraced(function*(userId: string, arrival: number, at: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ tier: string }>`
    SELECT a.tier FROM (
      SELECT ${integratorId}::text AS integrator_id, ${userId}::text AS user_id,
        ${value.int8(BigInt(arrival))} AS arrival, ${value.timestamptz(startMillis + at)} AS occurred_at
    ) t CROSS JOIN LATERAL ${sql.literal(recordOfPurchase)} a`
  return row?.tier
})

layer(liveLayer, { excludeTestServices: true })("the history of a user's attributes", (it) => {
  it.effect("has the latest record stored and received before a purchase, else the enrollment's, in every order", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* (yield* Integrators).create(integratorId)
      const users = histories(5).map((times, index) => ({ userId: `user-${1000 + index}`, times }))
      yield* insert(users.flatMap(({ times, userId }) =>
        times.map((storedAt, index) => ({ userId, storedAt, arrival: 2 * index + 2 }))))
      const purchases = users.flatMap(({ times, userId }) =>
        range(1, 2 * times.length + 3).flatMap((arrival) =>
          range(-1, (times.at(-1) ?? 0) + 1).map((at) => ({ userId, arrival, at }))))
      const rows = yield* sql<{ found: bigint; expected: bigint }>`
        SELECT (SELECT a.arrival FROM ${sql.literal(recordOfPurchase)} a) AS found, (
          SELECT arrival FROM (
            SELECT u.*, u.stored_at <= t.occurred_at AND u.arrival < t.arrival AS before
            FROM user_attributes u WHERE u.integrator_id = t.integrator_id AND u.user_id = t.user_id
          ) u ORDER BY before DESC, CASE WHEN before THEN -u.arrival ELSE u.arrival END LIMIT 1) AS expected
        FROM (
          SELECT ${integratorId}::text AS integrator_id, t.* FROM unnest(
            ${columns.text(purchases.map(({ userId }) => userId))},
            ${columns.int8(purchases.map(({ arrival }) => BigInt(arrival)))},
            ${columns.timestamptz(purchases.map(({ at }) => startMillis + at))}) AS t(user_id, arrival, occurred_at)
        ) t`
      assert.isAbove(rows.length, 9_000)
      assert.deepStrictEqual(rows.filter((row) => row.found !== row.expected).slice(0, 5), [])
    }))

  it.effect("costs the same for a user with 20,000 records as for one with two, with and without statistics", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const many = 20_000
      const others = range(1, 10_000).map((index) => ({ userId: `with-one-${index}`, arrival: 1, storedAt: 0 }))
      const pair = [1, many].map((arrival) => ({ userId: "with-two", arrival: 2 * arrival, storedAt: arrival }))
      const all = range(1, many).map((arrival) => ({ userId: "with-many", arrival: 2 * arrival, storedAt: arrival }))
      yield* insert(others)
      // the last record; one in the middle by its arrival, and by its time; the first
      const cases = [[2 * many + 1, many], [many + 1, many], [2 * many + 1, many / 2], [1, -1]] as const
      const cost = Effect.fnUntraced(function*(userId: string) {
        const found: Array<string | undefined> = []
        let sum = { rows: 0, pages: 0 }
        for (const [arrival, at] of cases) {
          const [tier, { pages, rows }] = yield* measured(tierAt(userId, arrival, at))
          found.push(tier)
          sum = { rows: sum.rows + rows, pages: sum.pages + pages }
        }
        return { found, ...sum }
      })
      yield* sql`VACUUM ANALYZE user_attributes`
      yield* insert([...pair, ...all])
      for (const prepare of [sql`SELECT ${value.int4(1)}`, sql`ANALYZE user_attributes`]) {
        yield* prepare
        const few = yield* cost("with-two")
        const long = yield* cost("with-many")
        assert.deepStrictEqual(few.found, ["40000", "2", "2", "2"])
        assert.deepStrictEqual(long.found, ["40000", "20000", "20000", "2"])
        assert.strictEqual(long.rows, few.rows)
        assert.isAtMost(long.pages, few.pages + 10)
        assert.isAtMost(long.rows, 20)
      }
    }))
})
