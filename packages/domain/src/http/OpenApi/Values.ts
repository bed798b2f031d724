/**
 * Values of several examples: times, a program version, and one reward in several states. The times are of the sandbox
 * clock, which the examples move forward; they lie ahead, so that the examples can be sent as they are.
 */
export const publishedAt = "2029-12-20T12:00:00.000Z"
export const at = "2030-01-01T12:00:00.000Z"
/** The end of the holding period. */
export const later = "2030-01-15T12:00:00.000Z"

/** The id of the integrator's event 17: a salt and the number, in hexadecimal. */
export const eventId = "evt_5ca1ab1e5ca1ab1e000000000011"

/** A reward after its clearing. */
export const reward = {
  id: "rw:acme:user-1:clearing:txn-1:groceries-2026",
  userId: "user-1",
  programId: "groceries-2026",
  programVersion: 1,
  transaction: { kind: "clearing", externalTransactionId: "txn-1" },
  state: "Pending",
  amount: { asset: "USDC", amount: "9876000" },
  spend: { currency: "USD", amount: "12345" },
  claimableAt: later,
  createdAt: at,
  updatedAt: at,
  revision: 1,
  earned: "9876000",
  paid: "0",
  recovered: "0",
  clawedBack: "0",
  refundedSpend: "0"
}

/** The same reward after its holding period, and what a full refund changes. */
export const claimable = { ...reward, state: "Claimable", revision: 2, updatedAt: later }
export const refunded = { state: "Refunded", amount: { asset: "USDC", amount: "0" }, refundedSpend: "12345" }

/** A program version with every part. */
export const definition = {
  asset: "USDC",
  effectiveFrom: "2030-01-01T00:00:00.000Z",
  categories: [{ id: "groceries", mccs: ["5411", "5499"] }],
  baseRate: 100,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  merchantRates: [],
  tiers: [{ tier: "gold", multiplier: 15000, baseRate: 150, categoryRates: [{ categoryId: "groceries", rate: 400 }] }],
  campaigns: [{
    id: "winter",
    startsAt: "2030-01-01T00:00:00.000Z",
    endsAt: "2030-02-01T00:00:00.000Z",
    bonusRate: 200,
    categoryIds: ["groceries"]
  }],
  caps: { perMonth: "50000000", categories: [{ categoryId: "groceries", perMonth: "20000000" }] },
  exclusions: { mccs: ["6011"], merchants: [] },
  holdingPeriodDays: 14,
  eligibility: { countries: ["DE"], segments: ["beta"] }
}

/** How the reward was computed. */
export const computation = {
  purchaseTime: at,
  attributes: { tier: "gold", country: "DE", segment: "beta" },
  category: "groceries",
  rate: { value: 400, source: "tierCategory" },
  multiplier: 15000,
  bonuses: [{ campaignId: "winter", bonusRate: 200 }],
  raw: "9876000",
  caps: [
    { scope: "month", perMonth: "50000000", usedBefore: "0", left: "50000000" },
    { scope: "category", categoryId: "groceries", perMonth: "20000000", usedBefore: "0", left: "20000000" }
  ],
  earned: "9876000"
}

/** A clearing, and its user. */
export const spendEvent = {
  kind: "clearing",
  integratorId: "acme",
  userId: "user-1",
  externalTransactionId: "txn-1",
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "CORNER SHOP BERLIN", mcc: "5411", mid: "M-100", country: "DE" },
  occurredAt: at
}

/** The user. */
export const user = { userId: "user-1", tier: "gold", country: "DE", segment: "beta", enrolledAt: at, updatedAt: at }
