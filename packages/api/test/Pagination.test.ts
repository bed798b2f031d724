import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Rewards } from "@card-rewards/core/Rewards"
import { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { RewardPage } from "@card-rewards/domain/Reward"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { clearing, definition } from "@card-rewards/testing/Requests"
import { TestApi } from "@card-rewards/testing/TestApi"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Ref, Schema } from "effect"
import { SqlClient, Statement } from "effect/sql"

const rewardCount = 10_000
const integratorId = IntegratorId.make("acme")
const userId = UserId.make("ann")

/** Rewards that wait for money, in the order of their numbers, with what the books say of them. */
const earnMany = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO rewards (integrator_id, user_id, kind, external_transaction_id, program_id, program_version,
      creation, asset, state, purchase_at, currency, spend, refunded_spend, earned, amount, paid, recovered,
      clawed_back,
      month_used_before, category_used_before, claimable_at, created_at, updated_at, revision)
    SELECT ${integratorId}, ${userId}, 'clearing', 't' || n, 'p', 1, n, 'USDC', 'AwaitingFunding', now(), 'USD', 100, 0,
      10000, 10000, 0, 0, 0, 0, 0, now() + interval '1 year', now(), now(), 1
    FROM generate_series(1, ${Database.value.int4(rewardCount)}) AS n`
  yield* sql`UPDATE vaults SET rewards = ${Database.value.int8(BigInt(rewardCount))}
    WHERE integrator_id = ${integratorId}`
  yield* sql`INSERT INTO user_balances (integrator_id, user_id, asset, awaiting_funding, pending, claimable, paid, owed)
    VALUES (${integratorId}, ${userId}, 'USDC', ${Database.value.numeric(BigInt(rewardCount) * 10_000n)}, 0, 0, 0, 0)`
  yield* sql`ANALYZE rewards`
})

const services = Rewards.layer.pipe(
  Layer.provide(Environment.layer("sandbox")),
  Layer.provideMerge(TestApi.withProcessing())
)

interface Explained {
  readonly Plan: Plan
}
interface Plan {
  readonly "Node Type": string
  readonly "Parent Relationship"?: string
  readonly "Index Name"?: string
  readonly "Shared Hit Blocks": number
  readonly "Shared Read Blocks": number
  readonly "Rows Removed by Filter"?: number
  readonly Plans?: ReadonlyArray<Plan>
}
const nodes = (plan: Plan): ReadonlyArray<Plan> => [plan, ...(plan.Plans ?? []).flatMap(nodes)]

layer(services, { excludeTestServices: true })(`a user with ${rewardCount} rewards`, (it) => {
  it.effect("is listed newest first without a duplicate or a gap while rewards are being added", () =>
    Effect.gen(function*() {
      const api = yield* TestApi
      yield* api.send("PUT", `/v1/users/${userId}`, { json: {} })
      yield* api.send("PUT", "/v1/programs/p/versions/1", { json: definition({ categories: [], categoryRates: [] }) })
      yield* api.send("PUT", "/v1/sandbox/clock", { json: { now: "2100-01-01T00:00:00.000Z" } })
      yield* earnMany

      const added = yield* Ref.make(0)
      const add = Effect.gen(function*() {
        const externalTransactionId = `new${yield* Ref.get(added)}`
        yield* api.send(
          "POST",
          "/v1/spend-events",
          { json: clearing({ externalTransactionId, occurredAt: "2099-12-15T00:00:00.000Z" }) }
        )
        yield* processAll
        yield* Ref.update(added, (count) => count + 1)
      })
      yield* Effect.repeat(add, { times: 2 })
      const adding = yield* Effect.forkChild(Effect.forever(add))

      const listed: Array<string> = []
      let cursor = ""
      let pages = 0
      do {
        const answer = yield* api.send("GET", `/v1/users/${userId}/rewards?limit=100${cursor}`)
        assert.strictEqual(answer.status, 200, answer.text)
        const { next, rewards } = yield* Schema.decodeUnknownEffect(RewardPage)(answer.body)
        if (next !== undefined) assert.strictEqual(rewards.length, 100)
        listed.push(...rewards.map(({ transaction }) => transaction.externalTransactionId))
        cursor = next === undefined ? "" : `&cursor=${encodeURIComponent(next)}`
        pages++
      } while (cursor !== "")
      const addedMeanwhile = yield* Ref.get(added)
      yield* Fiber.interrupt(adding)

      const early = listed.length - rewardCount
      assert.isAtLeast(early, 3)
      assert.isAbove(addedMeanwhile, early, "rewards were added while the pages were read")
      // what was there at the first page, newest first, each once; what came later is on no page
      assert.deepStrictEqual(listed, [
        ...Array.from({ length: early }, (_, index) => `new${early - 1 - index}`),
        ...Array.from({ length: rewardCount }, (_, index) => `t${rewardCount - index}`)
      ])
      assert.strictEqual(pages, Math.ceil(listed.length / 100))
      const first = yield* Schema.decodeUnknownEffect(RewardPage)(
        (yield* api.send("GET", `/v1/users/${userId}/rewards`)).body
      )
      assert.strictEqual(first.rewards.length, 50)
      assert.match(first.rewards[0]?.transaction.externalTransactionId ?? "", /^new/)
    }))

  it.effect("costs the same blocks on the last page as on the first, by the index alone", () =>
    Effect.gen(function*() {
      const rewards = yield* Rewards
      const sql = yield* SqlClient.SqlClient
      const statements: Array<readonly [string, ReadonlyArray<unknown>]> = []
      const read = (cursor: string | undefined) =>
        rewards.list(integratorId, userId, { limit: 100, cursor }).pipe(
          Effect.provideService(Statement.CurrentTransformer, (statement) =>
            Effect.sync(() => {
              statements.push(statement.compile())
              return statement
            }))
        )
      let cursors: ReadonlyArray<string> = []
      for (let page = yield* read(undefined); page.next !== undefined; page = yield* read(page.next)) {
        cursors = [...cursors, page.next]
      }
      const costs: Array<number> = []
      for (const cursor of [undefined, cursors[Math.floor(cursors.length / 2)], cursors.at(-2)]) {
        statements.length = 0
        assert.strictEqual((yield* read(cursor)).rewards.length, 100)
        const lists = statements.filter(([text]) => text.includes("ORDER BY creation DESC"))
        assert.strictEqual(lists.length, 1)
        let blocks = 0
        for (const [text, parameters] of statements) {
          const [row] = yield* sql.unsafe<Readonly<Record<string, ReadonlyArray<Explained>>>>(
            `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
            parameters
          )
          const plan = Object.values(row ?? {})[0]?.[0]?.Plan
          assert.isDefined(plan, text)
          if (plan === undefined) continue
          blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
          if (!text.includes("ORDER BY creation DESC")) continue
          const page = plan.Plans?.filter((node) => node["Parent Relationship"] === "Outer") ?? []
          const nodeTypes = [plan, ...page.flatMap(nodes)].map((node) => node["Node Type"])
          assert.deepStrictEqual(nodeTypes, ["Limit", "Index Only Scan"])
          assert.strictEqual(page[0]?.["Index Name"], "rewards_of_user")
          assert.strictEqual(page[0]?.["Rows Removed by Filter"] ?? 0, 0)
        }
        costs.push(blocks)
      }
      const [first = 0, middle = 0, last = 0] = costs
      assert.isAbove(first, 0)
      assert.isAtMost(
        Math.max(middle, last),
        first + 10,
        `blocks of the first, a middle and the last page: ${costs.join(", ")}`
      )
      assert.isBelow(last, 100)
    }))
})
