import type { WebhookEventKind } from "@card-rewards/domain/Event"
import type { RewardState } from "@card-rewards/domain/Reward"

/** Display names of reward states. */
export const stateNames: Record<RewardState, string> = {
  AwaitingFunding: "Awaiting funding",
  Pending: "Pending",
  Claimable: "Claimable",
  Paid: "Paid",
  Refunded: "Refunded"
}

/** Display names of event kinds. */
export const eventNames: Record<WebhookEventKind, string> = {
  "reward.pending": "Reward pending",
  "reward.awaiting_funding": "Reward awaits funding",
  "reward.claimable": "Reward claimable",
  "reward.recovered": "Reward recovered",
  "reward.paid": "Reward paid",
  "reward.refunded": "Reward refunded",
  "vault.deposit_confirmed": "Deposit",
  "vault.withdrawal_confirmed": "Withdrawal",
  "vault.claim_confirmed": "Claim",
  "vault.low_funds": "Low funds",
  "webhook.ping": "Ping"
}
