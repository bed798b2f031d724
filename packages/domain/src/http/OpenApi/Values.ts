/** Values of several examples: two times, and one reward in several states. */
export const at = "2026-11-20T09:30:00.000Z"
export const later = "2026-11-21T09:30:00.000Z"

/** A reward after its clearing. */
export const reward = {
  id: "rw:acme:user-1:clearing:txn-1:groceries-2026",
  userId: "user-1",
  programId: "groceries-2026",
  programVersion: 1,
  transaction: { kind: "clearing", externalTransactionId: "txn-1" },
  state: "Pending",
  amount: { asset: "USDC", amount: "3703500" },
  spend: { currency: "USD", amount: "12345" },
  claimableAt: "2026-12-04T09:30:00.000Z",
  createdAt: at,
  updatedAt: at,
  revision: 1,
  earned: "3703500",
  paid: "0",
  recovered: "0",
  clawedBack: "0",
  refundedSpend: "0"
}

/** The same reward after its holding period, and what a full refund changes. */
export const claimable = { ...reward, state: "Claimable", revision: 2, updatedAt: "2026-12-04T09:30:00.000Z" }
export const refunded = { state: "Refunded", amount: { asset: "USDC", amount: "0" }, refundedSpend: "12345" }
