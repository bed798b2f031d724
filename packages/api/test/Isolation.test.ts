import { processAll, sealAll } from "@card-rewards/testing/EventProcessing"
import { newIntegrator, TestApi } from "@card-rewards/testing/TestApi"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { endpoints } from "./Declared.ts"
import {
  attacker,
  attackersUser,
  attacks,
  belongings,
  type Known,
  laterBelongings,
  of,
  spend,
  victim
} from "./isolation/Attacks.ts"

/** Asked before and after what only the attacker's own things can answer. */
const isRead = (name: string) => /^GET |\/(quotes|simulations)$/.test(name)

/** An api with its worker's part, and a database of its own. */
const world = Effect.gen(function*() {
  const context = yield* Layer.build(Layer.fresh(TestApi.withProcessing()))
  const processed = Effect.provideContext(Effect.andThen(processAll, sealAll), context)
  const integrator = (name: string) => Effect.provideContext(newIntegrator(name), context)
  return { sql: Context.get(context, SqlClient.SqlClient), processed, integrator }
})

type World = Effect.Success<typeof world>

/** Everything that is stored of an integrator. */
const rowsOf = Effect.fnUntraced(function*({ sql }: World, integratorId: string) {
  const tables = yield* sql<{ name: string }>`SELECT table_name AS name FROM information_schema.columns
    WHERE table_schema = 'public' AND column_name = 'integrator_id' ORDER BY table_name`
  return yield* Effect.forEach(tables, ({ name }) => sql.unsafe<{ row: string }>(
    `SELECT '${name} ' || (to_jsonb(t) - 'last_used_at')::text AS row FROM "${name}" t
      WHERE integrator_id = $1 ORDER BY 1`,
    [integratorId]
  )).pipe(Effect.map((rows) => rows.flat().map(({ row }) => row)))
})

/** Times, secrets and event ids differ between two runs of one story. */
const withoutChance = (text: string) =>
  text.replaceAll(/,"lastUsedAt":"[^"]*"/g, "").replaceAll(/"2\d{3}-[^"]*Z"/g, "\"a time\"")
    .replaceAll(/_[0-9a-f]{64}/g, "_secret").replaceAll(/"[0-9a-f]{64}"/g, "\"a hash\"")
    .replaceAll(/evt_[0-9a-f]+/g, "evt").replaceAll(/"last4":"[^"]*"/g, "\"last4\"")

/** All attacks, the reads before and after the writes; every answer as a line. */
const attack = Effect.fnUntraced(function*({ integrator, processed }: World, known: Known) {
  const { send } = yield* integrator(attacker)
  const lines: Array<string> = []
  const ask = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
    for (const name of names) {
      for (const [method, path, json] of attacks[name]?.(known) ?? []) {
        const { status, text } = yield* send(method, path, json)
        lines.push(`${method} ${path}: ${status} ${withoutChance(text)}`)
      }
    }
  })
  const names = Object.keys(attacks)
  yield* ask(names.filter(isRead))
  yield* ask(names.filter((name) => !isRead(name)))
  yield* processed
  yield* ask(names.filter(isRead))
  return lines
})

describe("the table of attacks", () => {
  it("has one on every operation", () => {
    assert.sameMembers(Object.keys(attacks), endpoints.map(({ name }) => name))
  })
})

layer(Layer.empty, { excludeTestServices: true })("an integrator", (it) => {
  it.effect("sees and touches nothing of another one's, whose ids print like its own", () =>
    Effect.gen(function*() {
      const shared = yield* world
      const { send } = yield* shared.integrator(victim)
      for (const some of [belongings, laterBelongings]) {
        for (const [method, path, json] of some) {
          const { status, text } = yield* send(method, path, json)
          assert.isBelow(status, 300, `${method} ${path}: ${text}`)
        }
        yield* shared.processed
      }
      const { body: deliveries } = yield* send("GET", "/v1/webhook-endpoints/e/deliveries?limit=1")
      const { body: events } = yield* send("GET", "/v1/events?limit=1")
      const { body: waiting } = yield* send("GET", "/v1/spend-events?state=waiting&limit=1")
      const [reward] = yield* shared.sql<{ eventId: string; rewardId: string }>`
        SELECT event_id, body::json #>> '{data,id}' AS reward_id FROM events WHERE kind = 'reward.pending' LIMIT 1`
      assert.strictEqual(reward?.rewardId, "rw:victim:a:clearing:b:clearing:c:p")
      const known: Known = {
        eventId: reward?.eventId ?? "",
        rewardId: reward?.rewardId ?? "",
        rewardsCursor: "r9",
        deliveriesCursor: String(deliveries["next"]),
        eventsCursor: String(events["next"]),
        waitingCursor: String(waiting["next"])
      }
      assert.match(known.deliveriesCursor, /^d\d/)

      const before = yield* rowsOf(shared, victim)
      assert.isAbove(before.length, 40)
      const beside = yield* attack(shared, known)
      assert.deepStrictEqual(yield* rowsOf(shared, victim), before)

      // the attacker's answers, and what is stored of it, equal those without a victim
      const alone = yield* attack(yield* world, known)
      assert.deepStrictEqual(beside, alone)
      // it has a reward of its own under the very id that the victim's prints
      const explained = `GET /v1/users/${of(attackersUser)}/rewards/${of(known.rewardId)}/explanation: 200`
      assert.isTrue(beside.some((line) => line.startsWith(explained) && line.includes(`"value":200`)))
      const withCursor = beside.filter((line) => line.includes(known.waitingCursor))
      assert.isNotEmpty(withCursor)
      for (const line of withCursor) assert.include(line, `${known.waitingCursor}: 400`)
      for (const line of beside) assert.notInclude(line.replace(/^.*?: /, ""), "secret tier")
    }))

  it.effect("has users of its own whose ids print alike, each with what is theirs", () =>
    Effect.gen(function*() {
      const { integrator, processed, sql } = yield* world
      const { send } = yield* integrator(victim)
      for (const [method, path, json] of belongings) yield* send(method, path, json)
      const part = { originalTransactionId: "b:clearing:c", amount: { currency: "USD", amount: "345" } }
      yield* send(...spend(victim, "a", "b:clearing:c", { kind: "refund", ...part }))
      yield* processed
      const rewards = yield* sql<{ line: string }>`
        SELECT user_id || ' ' || amount AS line FROM rewards ORDER BY user_id COLLATE "C"`
      assert.deepStrictEqual(rewards.map(({ line }) => line), ["a 1200000", "a:clearing:b 1234500"])
      const id = of("rw:victim:a:clearing:b:clearing:c:p")
      for (const [user, amount] of [["a", "1200000"], ["a:clearing:b", "1234500"]] as const) {
        const { body, text } = yield* send("GET", `/v1/users/${of(user)}/rewards/${id}/explanation`)
        assert.include(text, `"amount":"${amount}"}}`)
        assert.property(body, "explanation")
        const list = yield* send("GET", `/v1/users/${of(user)}/rewards`)
        assert.strictEqual(list.text.match(/"programVersion"/g)?.length, 1)
        assert.include(list.text, `"userId":"${user}"`)
        assert.include(list.text, `"amount":"${amount}"`)
      }
    }))
})
