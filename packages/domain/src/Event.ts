import { Schema } from "effect"
import { IntegratorId, Reference, UserId, VaultId } from "./Ids.ts"
import { Amount, AssetAmount } from "./Money.ts"
import { Reward } from "./Reward.ts"
import { Timestamp } from "./Time.ts"

const vaultMovement = {
  vaultId: VaultId,
  reference: Reference,
  amount: AssetAmount,
  balance: Schema.Struct({ held: Amount, free: Amount })
}

/** What a confirmed deposit or withdrawal says; `balance` is what its transaction left. */
export const VaultMovement = Schema.Struct(vaultMovement).annotate({
  identifier: "VaultMovement",
  expected: "an object",
  description: "A confirmed movement of the vault; `balance` is what it left."
})

/** What a confirmed claim says, with the part of it that each reward paid. */
export const VaultClaim = Schema.Struct({
  ...vaultMovement,
  userId: UserId,
  rewards: Schema.Array(Schema.Struct({ id: Schema.String, amount: Amount }))
}).annotate({
  identifier: "VaultClaim",
  expected: "an object",
  description: "A confirmed claim, with the part of it that each reward paid."
})

const event = <const Kind extends string, Data extends Schema.Top>(kind: Kind, data: Data) =>
  Schema.Struct({
    id: Schema.String,
    kind: Schema.tag(kind),
    integratorId: IntegratorId,
    createdAt: Timestamp,
    data
  }).annotate({ identifier: `${pascalCase(kind)}Event`, expected: "an object" })

/** `reward.awaiting_funding` becomes `RewardAwaitingFunding`. */
const pascalCase = (kind: string): string =>
  kind.split(/[._]/).map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join("")

/** A webhook's body (decisions, section 7): stored once, the same bytes on every attempt. */
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
  event("webhook.ping", Schema.Struct({}))
])
export type WebhookEvent = typeof WebhookEvent.Type

/** The kinds of events. */
export type WebhookEventKind = WebhookEvent["kind"]
