import { Effect } from "effect"
import type { Request, Send } from "../NewIntegrator.ts"
import { processAll } from "../Processed.ts"
import { clearing, definition } from "../TestApi.ts"

export const url = "https://hooks.example.com/a"

export const usdc = (amount: string) => ({ asset: "USDC", amount })

export const enroll = (userId: string) => ["PUT", `/v1/users/${userId}`, {}] as const

export const createEndpoint = ["POST", "/v1/webhook-endpoints", { id: "e", url }] as const

export const createKey = (name: string) => ["POST", "/v1/api-keys", { name }] as const

export const spend = (changes: Readonly<Record<string, unknown>>) =>
  ["POST", "/v1/spend-events", clearing(changes)] as const

export const simulate = (path: string, reference: string, amount: string, more: object = {}) =>
  ["POST", `/v1/sandbox/${path}`, { reference, amount: usdc(amount), ...more }] as const

export const publish = (version: number, changes: Readonly<Record<string, unknown>>) =>
  ["PUT", `/v1/programs/p/versions/${version}`, definition(changes)] as const

/** What a simulation is asked. */
export const november = { definition: definition(), from: "2099-11-01T00:00:00Z", to: "2099-12-01T00:00:00Z" }

/** A reward of 1234500 units that is claimable at once, and enough money for it. */
export const earn = Effect.fnUntraced(function*(request: Send) {
  const story: ReadonlyArray<Request> = [
    enroll("ann"),
    publish(1, { holdingPeriodDays: 0, categories: [], categoryRates: [] }),
    ["PUT", "/v1/sandbox/clock", { now: "2100-01-01T00:00:00.000Z" }],
    spend({ occurredAt: "2099-12-02T00:00:00.000Z" }),
    simulate("deposits", "d", "1234500")
  ]
  for (const sent of story) yield* request(...sent)
  yield* processAll
})
