import type { RawClient } from "@card-rewards/testing/RawClient"
import * as SeededRandom from "@card-rewards/testing/SeededRandom"
import { Effect } from "effect"
import {
  type Asset,
  assets,
  type Balance,
  expect,
  groceries,
  integratorId,
  iso,
  unitsPerCent,
  userIds
} from "./World.ts"

/** A spend event on the wire. */
export interface Spend {
  readonly kind: "authorization" | "incremental_authorization" | "clearing" | "reversal" | "refund"
  readonly integratorId: string
  readonly userId: string
  readonly externalTransactionId: string
  readonly amount: { readonly currency: "USD" | "EUR"; readonly amount: string }
  readonly merchant: { readonly descriptor: string; readonly mcc: string }
  readonly occurredAt: string
  readonly authorizationId?: string
  readonly originalTransactionId?: string
}

/** A deposit, withdrawal or claim. */
export interface Move {
  readonly kind: "deposit" | "withdrawal" | "claim"
  readonly asset: Asset
  readonly amount: bigint
  readonly userId?: string
}

/** All that the service has acknowledged: nothing of it may be lost or counted twice. */
export interface Ledger {
  readonly spends: Map<string, Spend>
  readonly money: Array<Move>
  /** An instant that the sandbox clock has passed. */
  clockMillis: number
  /** How long before it purchases are: a machine's clock that is set back sets the sandbox clock back too. */
  readonly behindMillis: number
  /** The number of acknowledged requests. */
  acknowledged: number
  /** Whether customers end after their requests in flight. */
  closed: boolean
}

export const newLedger = (clockMillis: number, behindMillis = 0): Ledger =>
  ({ spends: new Map(), money: [], clockMillis, behindMillis, acknowledged: 0, closed: false })

/** The tuple that is an event's identity. */
export const identityOf = (spend: Spend): string => `${spend.userId}\0${spend.kind}\0${spend.externalTransactionId}`

let made = 0

/**
 * Customers in sequence, until the ledger is closed: authorizations, increments, clearings, reversals and refunds, some
 * of them out of order; deposits, withdrawals, claims, moves of the clock. A request without an answer is repeated.
 * Between two customers is a random pause of at most `maxPauseMillis`.
 */
export const customer = (
  client: RawClient,
  ledger: Ledger,
  seed: number,
  maxPauseMillis = 0
): Effect.Effect<void> => {
  const random = SeededRandom.make(seed)
  const once = Effect.suspend(() => {
    const kind = random.next()
    if (kind < 0.74) return spend(client, ledger, purchase(random, ledger))
    if (kind < 0.84) return spendTogether(client, ledger, purchases(random, ledger))
    if (kind < 0.90) return deposit(client, ledger, random)
    if (kind < 0.92) return withdraw(client, ledger, random)
    if (kind < 0.97) return claim(client, ledger, random)
    return moveClock(client, ledger, random)
  })
  const pause = Effect.suspend(() => Effect.sleep(random.integer(0, maxPauseMillis)))
  const body = () => maxPauseMillis === 0 ? once : Effect.andThen(once, pause)
  return Effect.whileLoop({ while: () => !ledger.closed, body, step: () => undefined })
}

/** Sends the events one after another. */
export const spend = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger, spends: ReadonlyArray<Spend>) {
  for (const one of spends) {
    yield* expect(202, client.sendWithRetries("POST", "/v1/spend-events", one))
    ledger.spends.set(identityOf(one), one)
    ledger.acknowledged++
  }
})

/** Sends the events in one batch. */
const spendTogether = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger, spends: ReadonlyArray<Spend>) {
  const answer = yield* expect(200, client.sendWithRetries("POST", "/v1/spend-events/batch", { events: spends }))
  const { results }: { readonly results: ReadonlyArray<{ readonly status: number }> } = JSON.parse(answer.text)
  if (results.length !== spends.length || results.some(({ status }) => status !== 202)) {
    return yield* Effect.die(new Error(`a batch of accepted events was answered ${answer.text}`))
  }
  for (const one of spends) ledger.spends.set(identityOf(one), one)
  ledger.acknowledged += spends.length
})

/** A clearing of 123.45 dollars; each call is for another user. */
export const clearing = (now: number): Spend => ({
  kind: "clearing",
  integratorId,
  userId: userIds[made % userIds.length] ?? "",
  externalTransactionId: `t${++made}`,
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "Shop", mcc: groceries },
  occurredAt: iso(now)
})

export const clearings = (count: number, now: number): ReadonlyArray<Spend> =>
  Array.from({ length: count }, () => clearing(now))

/** The events of one purchase. */
const purchase = (random: SeededRandom.SeededRandom, ledger: Ledger): ReadonlyArray<Spend> => {
  const id = ++made
  const currency = random.chance(0.7) ? "USD" : "EUR"
  const common = {
    integratorId,
    userId: random.pick(["user:0", ...userIds]),
    merchant: { descriptor: `Shop ${id}`, mcc: random.chance(0.5) ? groceries : "5999" },
    occurredAt: iso(ledger.clockMillis - ledger.behindMillis - random.integer(0, 3_600_000))
  } as const
  const cents = random.integer(1, 30_000)
  let part = 0
  const event = (kind: Spend["kind"], amount: number, link: Partial<Spend> = {}): Spend => ({
    ...common,
    ...link,
    kind,
    externalTransactionId: `${kind.slice(0, 3)}-${id}-${part++}`,
    amount: { currency, amount: `${amount}` }
  })
  const authorization = event("authorization", cents)
  const authorized = { authorizationId: authorization.externalTransactionId }
  const more = () => event("incremental_authorization", random.integer(1, 5_000), authorized)
  const linked = event("clearing", random.integer(1, 30_000), authorized)
  const alone = event("clearing", cents)
  const refundOf = (clearing: Spend) =>
    event("refund", random.integer(1, 20_000), { originalTransactionId: clearing.externalTransactionId })
  const story = random.pick<() => ReadonlyArray<Spend>>([
    () => [alone],
    () => [authorization, linked],
    () => [authorization, more(), linked, refundOf(linked)],
    () => [authorization, more(), more()],
    () => [authorization, event("reversal", random.pick([0, cents, random.integer(1, cents)]), authorized)],
    () => [alone, refundOf(alone), refundOf(alone)],
    () => [
      authorization,
      event("reversal", random.integer(0, cents), authorized),
      linked,
      refundOf(linked),
      refundOf(linked)
    ]
  ])()
  return random.chance(0.3) ? random.shuffled(story) : story
}

/** The events of several purchases. */
const purchases = (random: SeededRandom.SeededRandom, ledger: Ledger): ReadonlyArray<Spend> =>
  Array.from({ length: random.integer(1, 8) }, () => purchase(random, ledger)).flat()

const amountOf = (asset: Asset, amount: bigint) => ({ asset, amount: `${amount}` })

/** A deposit that is often too small, so that rewards wait for funding. */
const deposit = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger, random: SeededRandom.SeededRandom) {
  const asset = random.pick(assets)
  const amount = BigInt(random.integer(1, 3_000)) * unitsPerCent[asset]
  yield* expect(
    200,
    client.sendWithRetries("POST", "/v1/sandbox/deposits", { reference: `d${++made}`, amount: amountOf(asset, amount) })
  )
  ledger.money.push({ kind: "deposit", asset, amount })
  ledger.acknowledged++
})

/** The repeat of a request with a lost answer is a duplicate, so that a refusal means that it had no effect. */
const withdraw = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger, random: SeededRandom.SeededRandom) {
  const asset = random.pick(assets)
  const amount = BigInt(random.integer(1, 300)) * unitsPerCent[asset]
  const body = { reference: `w${++made}`, amount: amountOf(asset, amount) }
  const { status } = yield* expect([200, 422], client.sendWithRetries("POST", "/v1/sandbox/withdrawals", body))
  if (status === 200) ledger.money.push({ kind: "withdrawal", asset, amount })
  ledger.acknowledged++
})

const claim = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger, random: SeededRandom.SeededRandom) {
  const userId = random.pick(["user:0", ...userIds])
  const { text } = yield* expect(200, client.sendWithRetries("GET", `/v1/users/${userId}/balance`))
  const { balances }: { readonly balances: ReadonlyArray<Balance> } = JSON.parse(text)
  const [first, ...others] = balances.filter((balance) => balance.claimable !== "0")
  if (first === undefined) return
  const { asset, claimable } = random.pick([first, ...others])
  const part = () => 1n + BigInt(claimable) * BigInt(random.integer(0, 999)) / 1_000n
  const amount = random.chance(0.5) ? BigInt(claimable) : part()
  const body = { reference: `c${++made}`, userId, amount: amountOf(asset, amount) }
  const { status } = yield* expect([202, 422], client.sendWithRetries("POST", "/v1/sandbox/claims", body))
  if (status === 202) ledger.money.push({ kind: "claim", asset, amount, userId })
  ledger.acknowledged++
})

const moveClock = Effect.fnUntraced(function*(client: RawClient, ledger: Ledger, random: SeededRandom.SeededRandom) {
  const now = ledger.clockMillis + random.integer(1, 8) * 3_600_000
  const { status } = yield* expect([200, 422], client.sendWithRetries("PUT", "/v1/sandbox/clock", { now: iso(now) }))
  if (status === 200) ledger.clockMillis = Math.max(ledger.clockMillis, now)
  ledger.acknowledged++
})
