/** The stories of `card-rewards trigger`. Together they cause every kind of webhook. */
import { EndpointId, Reference, type TransactionId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import { Refused } from "../Exit.ts"
import {
  type Cardholder,
  deposit,
  depositUnits,
  enroll,
  fund,
  readUsdc,
  report,
  spend,
  Stage,
  usdc,
  type Webhooks,
  withdraw
} from "./Stage.ts"

/** A sequence of steps with one purpose. */
export interface Story {
  readonly name: string
  readonly description: string
  readonly play: Effect.Effect<void, Error, Stage>
}

/** 100 dollars, which earn 1 USDC. */
const priceCents = 10_000n

const authorize = (user: Cardholder, cents: bigint) =>
  spend(user, cents, (purchase) => ({ kind: "authorization", ...purchase }))

const clear = (user: Cardholder, cents: bigint, authorizationId: TransactionId, ...webhooks: Webhooks) =>
  spend(user, cents, (purchase) => ({ kind: "clearing", ...purchase, authorizationId }), ...webhooks)

const refund = (user: Cardholder, cents: bigint, originalTransactionId: TransactionId) =>
  spend(user, cents, (purchase) => ({ kind: "refund", ...purchase, originalTransactionId }), "reward.refunded")

/** A purchase by a new user. Returns the user, and the id of the clearing. */
const buy = Effect.fnUntraced(function*(program: "held" | "atOnce") {
  yield* fund
  const user = yield* enroll(program)
  const authorization = yield* authorize(user, priceCents)
  const webhooks: Webhooks = program === "held" ? ["reward.pending"] : ["reward.pending", "reward.claimable"]
  return { user, clearing: yield* clear(user, priceCents, authorization, ...webhooks) }
})

const purchase: Story = {
  name: "purchase",
  description: "An authorization and its clearing, which earns a reward: reward.pending",
  play: Effect.asVoid(buy("held"))
}

const increment: Story = {
  name: "increment",
  description: "An authorization, an increase of it, and the clearing of both: reward.pending",
  play: Effect.gen(function*() {
    yield* fund
    const user = yield* enroll("held")
    const authorizationId = yield* authorize(user, priceCents)
    yield* spend(user, 2_000n, (more) => ({ kind: "incremental_authorization", ...more, authorizationId }))
    yield* clear(user, priceCents + 2_000n, authorizationId, "reward.pending")
  })
}

const reversal: Story = {
  name: "reversal",
  description: "An authorization that is voided. No webhook: an authorization is an estimate, and never a reward",
  play: Effect.gen(function*() {
    const user = yield* enroll("held")
    const authorizationId = yield* authorize(user, priceCents)
    yield* spend(user, priceCents, (purchase) => ({ kind: "reversal", ...purchase, authorizationId }))
  })
}

const fullRefund: Story = {
  name: "refund",
  description: "A purchase that is refunded in full before its reward is claimable: reward.pending, reward.refunded",
  play: Effect.gen(function*() {
    const { clearing, user } = yield* buy("held")
    yield* refund(user, priceCents, clearing)
  })
}

const partialRefund: Story = {
  name: "partial-refund",
  description: "A purchase of which 40 % is refunded: reward.pending, reward.refunded",
  play: Effect.gen(function*() {
    const { clearing, user } = yield* buy("held")
    yield* refund(user, priceCents * 4n / 10n, clearing)
  })
}

/** A purchase whose reward is claimable at once, and the user's claim of it. */
const buyAndClaim = Effect.gen(function*() {
  const { api, newId } = yield* Stage
  const bought = yield* buy("atOnce")
  const { userId } = bought.user
  const { balances } = yield* api.users.balance({ params: { userId } })
  const amount = balances.find(({ asset }) => asset === "USDC")?.claimable ?? 0n
  const reference = Reference.make(yield* newId)
  yield* api.sandbox.claim({ payload: { reference, userId, amount: { asset: "USDC", amount } } })
  yield* report("claim", usdc(amount), "vault.claim_confirmed", "reward.paid")
  return bought
})

const claim: Story = {
  name: "claim",
  description: "A purchase, and the user's claim of its reward: reward.claimable, vault.claim_confirmed, reward.paid",
  play: Effect.asVoid(buyAndClaim)
}

const recovery: Story = {
  name: "recovery",
  description: "A refund after the claim, so that the next reward is recovered from the user: reward.recovered",
  play: Effect.gen(function*() {
    const { clearing, user } = yield* buyAndClaim
    yield* refund(user, priceCents, clearing)
    const authorizationId = yield* authorize(user, priceCents / 2n)
    yield* clear(user, priceCents / 2n, authorizationId, "reward.pending", "reward.recovered")
  })
}

const awaitingFunding: Story = {
  name: "awaiting-funding",
  description: "A reward beyond the vault's free money, a deposit, and a refund: reward.awaiting_funding",
  play: Effect.gen(function*() {
    const user = yield* enroll("held")
    const authorizationId = yield* authorize(user, priceCents)
    // 1 % of a cent is 100 units
    const cents = (yield* readUsdc).free / 100n + priceCents
    if (cents >= 10n ** 18n) {
      return yield* new Refused({ message: "The vault has more free money than a purchase can earn" })
    }
    const clearing = yield* clear(user, cents, authorizationId, "reward.awaiting_funding")
    const { free, waiting } = yield* readUsdc
    yield* deposit(waiting - free, "reward.pending")
    yield* refund(user, cents, clearing)
  })
}

const vaultDeposit: Story = {
  name: "deposit",
  description: "A deposit into the vault: vault.deposit_confirmed",
  play: deposit(depositUnits)
}

const withdrawal: Story = {
  name: "withdrawal",
  description: "A withdrawal from the vault: vault.withdrawal_confirmed",
  play: Effect.andThen(fund, withdraw(1_000_000n))
}

const lowFunds: Story = {
  name: "low-funds",
  description: "A withdrawal that takes free money below a threshold, and a deposit: vault.low_funds",
  play: Effect.gen(function*() {
    const { api } = yield* Stage
    yield* fund
    const params = { asset: "USDC" } as const
    const { free, threshold } = yield* readUsdc
    const restore = threshold === undefined
      ? api.vault.removeLowFunds({ params })
      : api.vault.setLowFunds({ params, payload: { threshold } })
    yield* Effect.acquireUseRelease(
      api.vault.setLowFunds({ params, payload: { threshold: free } }),
      () => Effect.andThen(withdraw(1_000_000n, "vault.low_funds"), deposit(1_000_000n)),
      () => Effect.ignore(restore)
    )
  })
}

const ping: Story = {
  name: "ping",
  description: "A test event of the webhook endpoint, or of one that exists for a moment: webhook.ping",
  play: Effect.gen(function*() {
    const { api, newId } = yield* Stage
    const { endpoints } = yield* api.webhookEndpoints.list()
    const pinged = (id: EndpointId) =>
      Effect.andThen(api.webhookEndpoints.ping({ params: { id } }), report("ping", id, "webhook.ping"))
    const [endpoint] = endpoints
    if (endpoint !== undefined) return yield* pinged(endpoint.id)
    const id = EndpointId.make(yield* newId)
    yield* Effect.acquireUseRelease(
      // a name that never exists (RFC 2606)
      api.webhookEndpoints.create({ payload: { id, url: "https://card-rewards.invalid/" } }),
      () => pinged(id),
      () => Effect.ignore(api.webhookEndpoints.remove({ params: { id } }))
    )
  })
}

/** All stories, in the order of the help. */
export const stories: ReadonlyArray<Story> = [
  purchase,
  increment,
  reversal,
  fullRefund,
  partialRefund,
  claim,
  recovery,
  awaitingFunding,
  vaultDeposit,
  withdrawal,
  lowFunds,
  ping
]
