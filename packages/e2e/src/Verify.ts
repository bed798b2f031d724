import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import { until } from "@card-rewards/testing/Polling"
import { admin, type Variables } from "@card-rewards/testing/Processes"
import type { RawClient } from "@card-rewards/testing/RawClient"
import type { Received } from "@card-rewards/testing/WebhookReceiver"
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import type { Ledger } from "./Load.ts"
import * as Reckoning from "./Reckoning.ts"
import { query, untilRows } from "./Setting.ts"
import { type Asset, assets, type Balance, expect, iso, unitsPerCent, userIds } from "./World.ts"

const day = 86_400_000

interface Reward {
  readonly id: string
  readonly revision: number
  readonly state: string
  readonly amount: { readonly amount: string }
  readonly earned: string
  readonly refundedSpend: string
  readonly paid: string
}

interface Page {
  readonly rewards: ReadonlyArray<Reward>
  readonly next?: string
}

interface WebhookEvent {
  readonly id: string
  readonly kind: string
  readonly data: Reward
}

export interface Verified {
  readonly events: number
  readonly rewards: number
  readonly deliveries: number
}

/**
 * Completes all work (all rewards funded, all holding periods over, all events delivered) and compares the state of the
 * service with the ledger of what it acknowledged. Dies with the first difference.
 */
export const verify = Effect.fnUntraced(function*(input: {
  readonly env: Variables
  readonly client: RawClient
  readonly ledger: Ledger
  readonly received: ReadonlyArray<Received>
  readonly timeoutSeconds?: number
}) {
  const { env, ledger, received, client } = input
  const timeoutSeconds = input.timeoutSeconds ?? 60
  for (const asset of assets) {
    const amount = 10n ** 9n * unitsPerCent[asset]
    yield* expect(
      200,
      client.sendWithRetries(
        "POST",
        "/v1/sandbox/deposits",
        { reference: `last-${asset}`, amount: { asset, amount: `${amount}` } }
      )
    )
    ledger.money.push({ kind: "deposit", asset, amount })
  }
  const backlog = get<{ stored: number; waiting: number }>(client, "/v1/spend-events/backlog")
  yield* until("the backlog", backlog, ({ stored, waiting }) => stored === 0 && waiting === 0, timeoutSeconds)
  ledger.clockMillis += 2 * day
  yield* expect(200, client.sendWithRetries("PUT", "/v1/sandbox/clock", { now: iso(ledger.clockMillis) }))
  yield* eachSpendOnce(env, client, ledger)
  const rewards = yield* checkMoney(client, ledger)
  const deliveries = yield* checkDeliveries(env, client, rewards, received, timeoutSeconds)
  yield* admin(env, "audit")
  const result: Verified = { events: ledger.spends.size, rewards: rewards.size, deliveries }
  return result
})

const get = <A>(client: RawClient, path: string): Effect.Effect<A> =>
  Effect.map(expect(200, client.sendWithRetries("GET", path)), ({ text }) => JSON.parse(text))

const must = (isSo: boolean, what: () => string) => isSo ? Effect.void : Effect.die(new Error(what()))

const eachSpendOnce = Effect.fnUntraced(function*(env: Variables, client: RawClient, ledger: Ledger) {
  const spends = [...ledger.spends.values()]
  yield* Effect.forEach(spends, Effect.fnUntraced(function*(one) {
    const { text } = yield* expect(202, client.sendWithRetries("POST", "/v1/spend-events", one))
    yield* must(JSON.parse(text).duplicate === true, () => `acknowledged and lost: ${JSON.stringify(one)}`)
  }), { concurrency: 32, discard: true })
  const [rows] = yield* query<{ n: string }>(
    env["DATABASE_URL"] ?? "",
    "SELECT count(*)::text AS n FROM spend_events WHERE position IS NOT NULL"
  )
  yield* must(Number(rows?.n) === spends.length, () => `${rows?.n} events applied, ${spends.length} acknowledged`)
})

/** Verifies that each reward exists once with the right amount, and the balances and the vault. */
const checkMoney = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger) {
  const reckoning = Reckoning.reckon(ledger)
  const rewards = new Map<string, Reward>()
  const sums = new Map<string, bigint>()
  for (const userId of userIds) {
    const path = `/v1/users/${userId}/rewards?limit=100`
    for (let cursor: string | undefined = ""; cursor !== undefined;) {
      const page: Page = yield* get<Page>(client, path + cursor)
      for (const reward of page.rewards) {
        yield* must(!rewards.has(reward.id), () => `a reward stands twice: ${reward.id}`)
        rewards.set(reward.id, reward)
        const expected = reckoning.rewards.get(reward.id)
        const is = [reward.earned, reward.amount.amount, reward.refundedSpend].join()
        const mustBe = [expected?.earned, expected?.amount, expected?.refundedSpend].join()
        yield* must(is === mustBe, () => `${reward.id} is ${is}, must be ${mustBe}`)
        yield* must(["Claimable", "Paid", "Refunded"].includes(reward.state), () => `${reward.id} is ${reward.state}`)
      }
      cursor = page.next === undefined ? undefined : `&cursor=${encodeURIComponent(page.next)}`
    }
  }
  yield* must(rewards.size === reckoning.rewards.size, () =>
    `${rewards.size} rewards, ${reckoning.rewards.size} earned`)
  for (const { amount, asset, userId } of reckoning.rewards.values()) {
    const key = Reckoning.userAsset(userId, asset)
    sums.set(key, (sums.get(key) ?? 0n) + amount)
  }
  for (const userId of userIds) {
    const { balances } = yield* get<{ balances: ReadonlyArray<Balance> }>(client, `/v1/users/${userId}/balance`)
    for (const { asset, ...balance } of balances) {
      const key = Reckoning.userAsset(userId, asset)
      const is = {
        ...balance,
        sum: BigInt(balance.claimable) + BigInt(balance.paid) - BigInt(balance.owed)
      }
      const mustBe = {
        ...is,
        expected: `${reckoning.expected.get(key) ?? 0n}`,
        pending: "0",
        awaitingFunding: "0",
        paid: `${Reckoning.paid(ledger, userId, asset)}`,
        sum: sums.get(key) ?? 0n
      }
      yield* must(isDeepStrictEqual(is, mustBe), () => `${key}: ${print(is)}, must be ${print(mustBe)}`)
    }
  }
  const vault = yield* get<{ balances: ReadonlyArray<{ asset: Asset; held: string }> }>(client, "/v1/sandbox/vault")
  for (const { asset, held } of vault.balances) {
    yield* must(BigInt(held) === Reckoning.held(ledger, asset), () =>
      `${asset}: ${held}, must be ${Reckoning.held(ledger, asset)}`)
  }
  return rewards
})

const print = (value: unknown): string => JSON.stringify(value, (_, one) => typeof one === "bigint" ? `${one}` : one)

/** Verifies that every event was delivered with its stored bytes, and the events of one reward in order. */
const checkDeliveries = Effect.fnUntraced(function*(
  env: Variables,
  client: RawClient,
  rewards: ReadonlyMap<string, Reward>,
  received: ReadonlyArray<Received>,
  timeoutSeconds: number
) {
  const url = env["DATABASE_URL"] ?? ""
  const pending = `${undelivered} UNION ALL SELECT integrator_id FROM retries WHERE state = 'exhausted'`
  yield* untilRows("undelivered", url, pending, ({ length }) => length === 0, timeoutSeconds)
  const stored = yield* query<{ event_id: string; body: string }>(url, "SELECT event_id, body FROM events")
  const bodies = new Map(stored.map((row) => [row.event_id, row.body]))
  const listed = yield* follow(client)
  yield* must(listed.length === bodies.size, () => `${listed.length} events listed, ${bodies.size} stored`)
  const arrived = new Set<string>()
  const revisions = new Map<string, number>()
  for (const { body, headers } of received) {
    const id = headers["x-service-event-id"] ?? ""
    arrived.add(id)
    yield* must(bodies.get(id) === body, () => `other bytes for ${id}: ${body}`)
    const { data, kind }: WebhookEvent = JSON.parse(body)
    if (!kind.startsWith("reward.")) continue
    const last = revisions.get(data.id) ?? 0
    yield* must(data.revision === last || data.revision === last + 1, () =>
      `${data.id}: revision ${data.revision} after ${last}`)
    revisions.set(data.id, data.revision)
  }
  for (const event of listed) {
    yield* must(arrived.has(event.id), () => `never delivered: ${event.id}`)
    yield* must(isDeepStrictEqual(JSON.parse(bodies.get(event.id) ?? "null"), event), () =>
      `${event.id} is listed otherwise`)
    const now = event.kind.startsWith("reward.") ? rewards.get(event.data.id) : undefined
    if (now === undefined || now.revision !== event.data.revision) continue
    yield* must(isDeepStrictEqual(now, event.data), () => `the list and the latest event differ: ${event.data.id}`)
  }
  for (const reward of rewards.values()) {
    yield* must(revisions.get(reward.id) === reward.revision, () => `${reward.id} has an event missing at its end`)
  }
  return received.length
})

/** All events, read from the event log as by a client. */
const follow = Effect.fnUntraced(function*(client: RawClient) {
  const all: Array<WebhookEvent> = []
  for (let after = "0";;) {
    const page = yield* get<{
      events: ReadonlyArray<WebhookEvent>; next: string
    }>(client, `/v1/events?limit=100&after=${after}`)
    if (page.events.length === 0) return all
    all.push(...page.events)
    after = page.next
  }
})

