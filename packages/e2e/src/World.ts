import type { Variables } from "@card-rewards/testing/Processes"
import * as Provision from "@card-rewards/testing/Provision"
import type { RawClient } from "@card-rewards/testing/RawClient"
import { Effect, Redacted } from "effect"

/** The integrator of these tests, and its rates. */
export const integratorId = "acme"

const day = 86_400_000

/** In basis points, of groceries and of everything else. There are no caps, so that amounts depend on no order. */
export const rates = {
  USDC: { programId: "dollars", groceries: 300, other: 137 },
  EURe: { programId: "euros", groceries: 250, other: 50 }
} as const

export const assets = ["USDC", "EURe"] as const
export type Asset = typeof assets[number]

/** An entry of a user's balance on the wire. */
export type Balance = Readonly<
  Record<"expected" | "pending" | "awaitingFunding" | "claimable" | "paid" | "owed", string> & { asset: Asset }
>

/** The number of smallest units in a cent. */
export const unitsPerCent: Readonly<Record<Asset, bigint>> = { USDC: 10n ** 4n, EURe: 10n ** 16n }

export const groceries = "5411"
const goldMultiplier = 12_345

/** A user by number; every third has the tier gold. */
export const userIds = Array.from({ length: 24 }, (_, index) => `user:${index}`)
export const multiplierOf = (userId: string): number => Number(userId.slice(5)) % 3 === 0 ? goldMultiplier : 10_000

const attributesOf = (userId: string) => multiplierOf(userId) === goldMultiplier ? { tier: "gold" } : {}

/** Migrates a database and makes the integrator. Returns its first API key. */
export const provision = (env: Variables, id: string = integratorId) =>
  Provision.provision(Redacted.make(env["DATABASE_URL"] ?? ""), id)

/** Publishes the programs, moves the clock until they are in force, and enrolls users. Returns the clock's time. */
export const seedIntegrator = Effect.fnUntraced(function*(client: RawClient) {
  const { now } = JSON.parse((yield* client.sendWithRetries("GET", "/v1/sandbox/clock")).text)
  const begin = Date.parse(now) + 600_000
  for (const asset of assets) {
    const { groceries: rate, other, programId } = rates[asset]
    yield* expect(200, client.sendWithRetries("PUT", `/v1/programs/${programId}/versions/1`, {
      asset,
      effectiveFrom: iso(begin),
      categories: [{ id: "groceries", mccs: [groceries] }],
      baseRate: other,
      categoryRates: [{ categoryId: "groceries", rate }],
      merchantRates: [],
      tiers: [{ tier: "gold", multiplier: goldMultiplier }],
      campaigns: [],
      caps: { perMonth: `1${"0".repeat(40)}`, categories: [] },
      exclusions: { mccs: [], merchants: [] },
      holdingPeriodDays: 1
    }))
  }
  yield* expect(200, client.sendWithRetries("PUT", "/v1/sandbox/clock", { now: iso(begin + day) }))
  yield* Effect.forEach(userIds, (userId) =>
    expect(200, client.sendWithRetries("PUT", `/v1/users/${userId}`, attributesOf(userId))), { concurrency: 8 })
  return begin + day
})

/** Creates an endpoint for the receiver. Returns its signing secret. */
export const listen = Effect.fnUntraced(function*(client: RawClient, url: string) {
  const { text } = yield* expect(201, client.sendWithRetries("POST", "/v1/webhook-endpoints", { id: "main", url }))
  const { secret }: { readonly secret: string } = JSON.parse(text)
  return secret
})

/** Returns the answer of a request where it has this status, and dies otherwise. */
export const expect = <A extends { readonly status: number; readonly text: string }, E, R>(
  status: number | ReadonlyArray<number>,
  answer: Effect.Effect<A, E, R>
) =>
  Effect.filterOrElse(answer, ({ status: was }) => [status].flat().includes(was), ({ status: was, text }) =>
    Effect.die(new Error(`expected ${status}, was ${was}: ${text}`)))

export const iso = (millis: number): string => new Date(millis).toISOString()
