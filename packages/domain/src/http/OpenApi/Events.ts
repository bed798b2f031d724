import { at, claimable, eventId, later, refunded, reward } from "./Values.ts"

const movement = {
  vaultId: "sandbox",
  reference: "deposit-1",
  amount: { asset: "USDC", amount: "1000000000" },
  balance: { held: "1000000000", free: "1000000000" }
}

/** The cause of each kind of event, and an example of its `data`. */
export const events: Readonly<Record<string, { readonly when: string; readonly data: unknown }>> = {
  "reward.pending": {
    when: "A reward was earned or funded, and is pending until its holding period ends.",
    data: reward
  },
  "reward.awaiting_funding": {
    when: "A reward was earned, and waits until the vault has free money.",
    data: { ...reward, state: "AwaitingFunding" }
  },
  "reward.claimable": { when: "The holding period ended: the user can claim the reward.", data: claimable },
  "reward.recovered": {
    when: "The holding period ended, and the whole reward was used to recover what the user owed.",
    data: { ...claimable, state: "Paid", recovered: "9876000" }
  },
  "reward.paid": {
    when: "A claim paid a part or the rest of the reward.",
    data: { ...claimable, state: "Paid", paid: "9876000", revision: 3 }
  },
  "reward.refunded": {
    when: "A refund reduced the reward.",
    data: { ...reward, ...refunded, revision: 2, updatedAt: later }
  },
  "vault.deposit_confirmed": { when: "A deposit into the vault is confirmed.", data: movement },
  "vault.withdrawal_confirmed": {
    when: "A withdrawal from the vault is confirmed.",
    data: {
      ...movement,
      reference: "withdrawal-1",
      amount: { asset: "USDC", amount: "100000000" },
      balance: { held: "900000000", free: "890124000" }
    }
  },
  "vault.claim_confirmed": {
    when: "A user's claim is paid.",
    data: {
      ...movement,
      reference: "claim-1",
      amount: { asset: "USDC", amount: "9876000" },
      balance: { held: "990124000", free: "990124000" },
      userId: "user-1",
      rewardCount: 1,
      rewards: [{ id: reward.id, amount: "9876000" }]
    }
  },
  "vault.low_funds": {
    when: "The vault's free money fell below the threshold; once, until it was at or above it again.",
    data: {
      vaultId: "sandbox",
      asset: "USDC",
      threshold: "500000000",
      balance: { held: "1000000000", free: "499000000" }
    }
  },
  "webhook.ping": { when: "The integrator requested a ping.", data: {} }
}

/** The body of a webhook. */
export const event = (kind: string, data: unknown): unknown =>
  ({ id: eventId, kind, integratorId: "acme", createdAt: at, data })
