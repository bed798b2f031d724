import { plainProgram } from "@card-rewards/domain/PlainProgram"
import type { Effect } from "effect"
import type { Answer } from "./HttpExchange.ts"

/** A request as the tables of tests write it. */
export type Request = readonly [method: string, path: string, json?: unknown]

/** Sends a request as an integrator. */
export type Send = (...request: Request) => Effect.Effect<Answer>

type Changes = Readonly<Record<string, unknown>>

/** A public webhook URL, to which no test delivers. */
export const hookUrl = "https://hooks.example.com/a"

/** An amount in smallest units of USDC. */
export const usdc = (amount: string) => ({ asset: "USDC", amount })

/** A clearing of 123.45 dollars by `ann` of `acme`, changed where a test wants. */
export const clearing = (changes: Changes = {}) => ({
  kind: "clearing",
  integratorId: "acme",
  userId: "ann",
  externalTransactionId: "t1",
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "Shop", mcc: "5411" },
  occurredAt: "2026-01-01T00:00:00.000Z",
  ...changes
})

/** A program version that is published without problems: 1 % in USDC, 3 % of groceries, held for 14 days. */
export const definition = (changes: Changes = {}) => ({
  ...plainProgram,
  effectiveFrom: "2099-12-01T00:00:00.000Z",
  categories: [{ id: "groceries", mccs: ["5411"] }],
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  caps: { perMonth: "50000000", categories: [] },
  holdingPeriodDays: 14,
  ...changes
})

/** The request for a simulation of {@link definition}. */
export const november = { definition: definition(), from: "2099-11-01T00:00:00Z", to: "2099-12-01T00:00:00Z" }

export const enroll = (userId: string, attributes: Changes = {}): Request => ["PUT", `/v1/users/${userId}`, attributes]

export const publish = (programId: string, version: number, changes: Changes = {}): Request => [
  "PUT",
  `/v1/programs/${programId}/versions/${version}`,
  definition(changes)
]

/** Submits a {@link clearing}. */
export const spend = (changes: Changes = {}): Request => ["POST", "/v1/spend-events", clearing(changes)]

export const createEndpoint = (id = "e", url = hookUrl): Request => ["POST", "/v1/webhook-endpoints", { id, url }]

export const createKey = (name: string): Request => ["POST", "/v1/api-keys", { name }]

/** A deposit, withdrawal or claim of USDC in the sandbox. */
export const moveMoney = (
  path: "deposits" | "withdrawals" | "claims",
  reference: string,
  amount: string,
  more: Changes = {}
): Request => ["POST", `/v1/sandbox/${path}`, { reference, amount: usdc(amount), ...more }]

/** Sets the sandbox clock. */
export const setClock = (now: string): Request => ["PUT", "/v1/sandbox/clock", { now }]
