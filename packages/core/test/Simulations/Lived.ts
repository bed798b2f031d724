import { Programs } from "@card-rewards/core/Programs"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { Simulations } from "@card-rewards/core/Simulations"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { Users } from "@card-rewards/core/Users"
import { type IntegratorId, ProgramId, UserId } from "@card-rewards/domain/Ids"
import type { SimulationRequest } from "@card-rewards/domain/Simulation"
import { instant, parseTimestamp } from "@card-rewards/domain/Time"
import { Enrollment } from "@card-rewards/domain/User"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { Effect, Layer, Schema } from "effect"
import { moneyLayer } from "../Spending.ts"
import { newIntegrator, startMillis } from "../TestLayer.ts"

/** Simulations, and all services that the history needs. */
export const services = Simulations.layer().pipe(Layer.provideMerge(moneyLayer))

export const program = ProgramId.make("p")
const groceries = [{ id: "groceries", mccs: ["5411"] }]
const inForce = {
  categories: groceries,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  tiers: [{ tier: "gold", multiplier: 15_000 }],
  exclusions: { mccs: ["6011"], merchants: [] }
}
const candidate = {
  categories: groceries,
  baseRate: 200,
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  tiers: [{ tier: "gold", multiplier: 20_000 }],
  caps: { perMonth: "10000000", categories: [{ categoryId: "groceries", perMonth: "2000000" }] }
}

const moveClock = Effect.fnUntraced(function*(id: IntegratorId, to: string) {
  yield* (yield* SandboxClock).set(id, instant(parseTimestamp(to) ?? Number.NaN))
})

const put = Effect.fnUntraced(function*(id: IntegratorId, user: string, attributes: object) {
  yield* (yield* Users).put(id, UserId.make(user), Schema.decodeUnknownSync(Enrollment)(attributes))
})

export const send = Effect.fnUntraced(function*(
  id: IntegratorId,
  [kind, userId, externalTransactionId, cents, mcc, day, more = {}]: Sent
) {
  yield* (yield* SpendEvents).submit(spendEvent(id, userId, Date.parse(`2026-${day}T00:00:00Z`), {
    kind,
    externalTransactionId,
    amount: usd(cents),
    merchant: { descriptor: "Shop", mcc },
    ...more
  }))
})
type Sent = readonly [kind: string, user: string, id: string, cents: number, mcc: string, day: string, more?: object]

const euros = (amount: string) => ({ currency: "EUR", amount })

/** November and December of four users. */
export const lived = Effect.gen(function*() {
  const id = yield* newIntegrator
  yield* (yield* Programs).publish(id, program, 1, definition(startMillis + 400_000, inForce), [])
  for (const user of ["ann", "bob", "carl", "dave"]) yield* put(id, user, user === "ann" ? { tier: "gold" } : {})
  yield* moveClock(id, "2026-11-12T00:00:00Z")
  yield* put(id, "ann", {})
  yield* moveClock(id, "2026-12-10T00:00:00Z")
  const history: ReadonlyArray<Sent> = [
    // before the simulated period: a gold user's purchase that uses 0.30 of the cap
    ["clearing", "ann", "c0", 500, "5411", "11-05"],
    // the user was gold at the authorization and no longer at the clearing
    ["authorization", "ann", "a1", 10_000, "5812", "11-10"],
    ["clearing", "ann", "c1", 12_000, "5812", "11-15", { authorizationId: "a1" }],
    // 3.00, capped at 1.70; half of it is refunded, which frees half of the cap room
    ["clearing", "ann", "c2", 10_000, "5411", "11-20"],
    // without effect
    ["refund", "ann", "in euros", 1, "5411", "11-21", { originalTransactionId: "c2", amount: euros("1") }],
    ["refund", "ann", "r2", 5_000, "5411", "11-21", { originalTransactionId: "c2" }],
    ["clearing", "ann", "c3", 10_000, "5411", "11-25"],
    ["clearing", "bob", "c4", 10_000, "6011", "11-25"],
    ["clearing", "bob", "c5", 5_000, "4111", "12-02"],
    ["clearing", "carl", "c6", 100, "5411", "11-25"],
    ["clearing", "dave", "c7", 10_000, "5411", "11-25"],
    // after the simulated period, in another currency, and never applied
    ["clearing", "dave", "c8", 10_000, "5812", "12-03"],
    ["clearing", "dave", "c9", 10_000, "5812", "11-25", { amount: euros("1") }],
    ["clearing", "dave", "c10", 10_000, "5812", "11-25", { authorizationId: "never" }]
  ]
  for (const sent of history) yield* send(id, sent)
  yield* processAll
  return id
})

/** A simulation of a candidate; `changes` are to the candidate. */
export const request = (
  changes: object = {},
  from = "2026-11-08T00:00:00Z",
  to = "2026-12-03T00:00:00Z"
): SimulationRequest => ({
  definition: definition(0, { ...candidate, ...changes }),
  from: instant(parseTimestamp(from) ?? Number.NaN),
  to: instant(parseTimestamp(to) ?? Number.NaN)
})
