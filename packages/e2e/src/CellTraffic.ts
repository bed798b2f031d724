import type { Connection } from "@card-rewards/dev-postgres/AdminSql"
import { until } from "@card-rewards/testing/Polling"
import { createIntegrators } from "@card-rewards/testing/Provision"
import * as RawClient from "@card-rewards/testing/RawClient"
import { createEndpoint, enroll, moveMoney, publish, setClock, spend } from "@card-rewards/testing/Requests"
import type { Received, WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert } from "@effect/vitest"
import { Effect, Random, Redacted } from "effect"

const userIds = ["ann", "bob"]
const pauseMillis = 200

/** An integrator whose client sends purchases one after another, and repeats each until it is accepted. */
export interface Sender {
  readonly id: string
  readonly slot: number
  readonly client: RawClient.RawClient
  /** The accepted purchases by user, in order. */
  readonly accepted: Map<string, Array<string>>
  /** The longest time from a purchase's first request to its 202. */
  longestMillis: number
}

/** Creates integrators in a database, as an operator does. */
export const createSenders = Effect.fnUntraced(function*(
  databaseUrl: string,
  ids: ReadonlyArray<string>,
  port: number
): Effect.fn.Return<ReadonlyArray<Sender>> {
  const created = yield* createIntegrators(Redacted.make(databaseUrl), ids)
  return created.map(({ apiKey, id }) => {
    const client = RawClient.make({ baseUrl: () => `http://127.0.0.1:${port}`, apiKey })
    // a key begins with the slot of its integrator
    const slot = Number.parseInt(apiKey.slice(-64, -62), 16)
    return { id, slot, client, accepted: new Map(), longestMillis: 0 }
  })
})

type SentRequest = Parameters<RawClient.RawClient["sendWithRetries"]>

const send = Effect.fnUntraced(function*(sender: Sender, ...request: SentRequest) {
  const answer = yield* sender.client.sendWithRetries(...request)
  assert.isTrue(answer.status < 300, `${sender.id}: ${request[1]}: ${answer.status} ${answer.text}`)
  return answer
})

/** Users, a program, money and an endpoint of each integrator. */
export const prepare = Effect.fnUntraced(function*(sender: Sender, receiver: WebhookReceiver["Service"]) {
  yield* send(sender, ...createEndpoint("e", `${receiver.origin}/${sender.id}`))
  for (const userId of userIds) yield* send(sender, ...enroll(userId, userId === "bob" ? { referredBy: "ann" } : {}))
  yield* send(sender, ...publish("p", 1, { caps: { perMonth: "900000000000", categories: [] } }))
  yield* send(sender, ...setClock("2099-12-02T00:00:00.000Z"))
  yield* send(sender, ...moveMoney("deposits", "d", "900000000000"))
})

/** Sends purchases until `isOver`. */
export const traffic = Effect.fnUntraced(function*(sender: Sender, isOver: () => boolean) {
  for (let sent = 0; !isOver(); sent++) {
    const userId = userIds[sent % 2] ?? ""
    const purchase = { integratorId: sender.id, userId, externalTransactionId: `t${sent}` }
    const begin = performance.now()
    yield* send(sender, ...spend({ ...purchase, occurredAt: "2099-12-01T12:00:00.000Z" }))
    sender.longestMillis = Math.max(sender.longestMillis, performance.now() - begin)
    sender.accepted.set(userId, [...sender.accepted.get(userId) ?? [], purchase.externalTransactionId])
    yield* Effect.sleep(pauseMillis * (yield* Random.nextBetween(0.5, 1.5)))
  }
})

/** The integrator's events in a database. */
export const eventsOf = (sql: Connection, { id }: Sender) =>
  Effect.orDie(sql<{ event: string; id: string; kind: string; reward: string | null }>`
    SELECT event::text, event_id AS id, kind, reward::text FROM events
      WHERE integrator_id = ${id} ORDER BY events.event`)

/** The first arrival of each event at the receiver, by integrator. */
export class FirstArrivals {
  readonly #received: ReadonlyArray<Received>
  readonly #byPath = new Map<string, Map<string, number>>()
  #read = 0

  constructor(received: ReadonlyArray<Received>) {
    this.#received = received
  }

  /** The ids of the integrator's events, each with its position among all that was received. */
  of({ id }: Sender): ReadonlyMap<string, number> {
    for (; this.#read < this.#received.length; this.#read++) {
      const { body, path } = this.#received[this.#read] ?? { body: "", path: "" }
      const own = this.#byPath.get(path) ?? new Map<string, number>()
      this.#byPath.set(path, own)
      const event: { readonly id: string } = JSON.parse(body)
      if (!own.has(event.id)) own.set(event.id, this.#read)
    }
    return this.#byPath.get(`/${id}`) ?? new Map()
  }
}

/** Moves the integrator's clock to where all its rewards are due. */
export const makeDue = (sender: Sender) => send(sender, ...setClock("2099-12-31T00:00:00.000Z"))

/**
 * Waits until all work is done, and compares what the integrator's cell has with what was accepted: each purchase once,
 * in each user's order; one reward for each; events numbered without gaps, each delivered, each reward's in order.
 */
export const verify = Effect.fnUntraced(function*(sql: Connection, sender: Sender, arrivals: FirstArrivals) {
  const ids = [...sender.accepted.values()].flat().toSorted()
  const backlog = Effect.map(send(sender, "GET", "/v1/spend-events/backlog"), ({ text }) => JSON.parse(text))
  yield* until(`the backlog of ${sender.id}`, backlog, ({ stored, waiting }) => stored === 0 && waiting === 0)
  for (const [userId, accepted] of sender.accepted) {
    for (const order of ["arrival", "position"]) {
      const rows = yield* sql<{ id: string }>`SELECT external_transaction_id AS id FROM spend_events
        WHERE integrator_id = ${sender.id} AND user_id = ${userId} ORDER BY ${sql(order)}`
      assert.deepStrictEqual(rows.map(({ id }) => id), accepted, `${sender.id} ${userId} by ${order}`)
    }
  }
  const claimable = sql`SELECT FROM events WHERE integrator_id = ${sender.id} AND kind = 'reward.claimable'`
  yield* until(`claimable rewards of ${sender.id}`, claimable, ({ length }) => length >= ids.length)
  const rewards = yield* sql<{ id: string }>`SELECT external_transaction_id AS id FROM rewards
    WHERE integrator_id = ${sender.id}`
  assert.deepStrictEqual(rewards.map(({ id }) => id).toSorted(), ids, `rewards of ${sender.id}`)

  const events = yield* eventsOf(sql, sender)
  assert.deepStrictEqual(events.map(({ event }) => event), events.map((_, index) => `${index + 1}`))
  const missing = Effect.sync(() => {
    const arrived = arrivals.of(sender)
    return events.filter(({ id }) => !arrived.has(id)).length
  })
  yield* until(`webhooks of ${sender.id}`, missing, (count) => count === 0, 90)
  const first = arrivals.of(sender)
  assert.strictEqual(first.size, events.length, `${sender.id} got no other events`)
  for (const ofReward of Map.groupBy(events.filter(({ reward }) => reward !== null), ({ reward }) => reward).values()) {
    const positions = ofReward.map(({ id }) => first.get(id) ?? -1)
    assert.deepStrictEqual(positions, positions.toSorted((one, other) => one - other), `${sender.id}: first arrivals`)
  }
  return { events: events.length, rewards: ids.length }
}, Effect.orDie)
