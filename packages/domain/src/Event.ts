import { Schema } from "effect"
import { IntegratorId, Reference, UserId, VaultId } from "./Ids.ts"
import { Amount, Asset, AssetAmount } from "./Money.ts"
import { LogNumber } from "./Pagination.ts"
import { Reward } from "./Reward.ts"
import { Timestamp } from "./Time.ts"

const vaultMovement = {
  vaultId: VaultId,
  reference: Reference,
  amount: AssetAmount,
  balance: Schema.Struct({ held: Amount, free: Amount })
}

/** The data of a confirmed deposit or withdrawal; `balance` is the balance after it. */
export const VaultMovement = Schema.Struct(vaultMovement).annotate({
  identifier: "VaultMovement",
  expected: "an object",
  description: "A confirmed movement of the vault; `balance` is the balance after it."
})

/** The data of a confirmed claim: how many rewards it pays, and how much of each of the first 1,000. */
export const VaultClaim = Schema.Struct({
  ...vaultMovement,
  userId: UserId,
  rewardCount: Schema.Int,
  rewards: Schema.Array(Schema.Struct({ id: Schema.String, amount: Amount }))
}).annotate({
  identifier: "VaultClaim",
  expected: "an object",
  description: "A confirmed claim: how many rewards it pays, and how much of each of the first 1,000."
})

/** The data of `vault.low_funds`: less than the threshold is free. */
export const LowFundsNotice = Schema.Struct({
  vaultId: VaultId,
  asset: Asset,
  threshold: Amount,
  balance: Schema.Struct({ held: Amount, free: Amount })
}).annotate({
  identifier: "LowFundsNotice",
  expected: "an object",
  description: "The vault's free money has fallen below the threshold; `balance` is the balance after it."
})

const event = <const Kind extends string, Data extends Schema.Top>(kind: Kind, data: Data) =>
  Schema.Struct({
    id: Schema.String,
    kind: Schema.tag(kind),
    integratorId: IntegratorId,
    createdAt: Timestamp,
    data
  }).annotate({ identifier: schemaName(kind), expected: "an object" })

/** The name of a kind's schema: `reward.awaiting_funding` has `RewardAwaitingFundingEvent`. */
export const schemaName = (kind: string): string =>
  `${kind.split(/[._]/).map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join("")}Event`

/** The body of a webhook (decisions, section 7). It is stored once: every attempt sends the same bytes. */
export const WebhookEvent = Schema.Union([
  event("reward.pending", Reward),
  event("reward.awaiting_funding", Reward),
  event("reward.claimable", Reward),
  event("reward.recovered", Reward),
  event("reward.paid", Reward),
  event("reward.refunded", Reward),
  event("vault.deposit_confirmed", VaultMovement),
  event("vault.withdrawal_confirmed", VaultMovement),
  event("vault.claim_confirmed", VaultClaim),
  event("vault.low_funds", LowFundsNotice),
  event("webhook.ping", Schema.Struct({}))
])
export type WebhookEvent = typeof WebhookEvent.Type

/** The kinds of events. */
export const WebhookEventKind = Schema.Literals(WebhookEvent.members.map(({ fields }) => fields.kind.schema.literal))
export type WebhookEventKind = typeof WebhookEventKind.Type

/** Events, oldest first. `next` is always present. */
export const EventPage = Schema.Struct({ events: Schema.Array(WebhookEvent), next: LogNumber }).annotate({
  identifier: "EventPage",
  description: "Events, oldest first."
})
export type EventPage = typeof EventPage.Type
