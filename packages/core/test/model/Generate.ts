import { attributes, programs, publish } from "./generate/Programs.ts"
import { movement, refundOfPaid } from "./generate/Moves.ts"
import { day, hour, minute, type Scenario, scenarioOf, some } from "./generate/Scenario.ts"
import { spend } from "./generate/Spends.ts"
import type { Operation } from "./Operation.ts"

const users = ["u1", "u2", "u3"]

/** A sequence of operations; the same seed gives the same one. */
export const generate = (seed: number, length: number): ReadonlyArray<Operation> => {
  const scenario = scenarioOf(seed)
  const { chance } = scenario.random
  const first = start(scenario)
  const rest = Array.from({ length }, () => step(scenario)).flat()
  // a read applies what is due, so some operations go without a check
  const checked = chance(0.7) ? 0.7 : 0.2
  const check = { op: "check" as const }
  return [...first, ...rest.flatMap((operation) => chance(checked) ? [operation, check] : [operation]), check]
}

/** Users, programs that are in force, and mostly money to begin with. */
const start = (scenario: Scenario): ReadonlyArray<Operation> => {
  const { asset, random, unit } = scenario
  const { chance } = random
  return [
    { op: "put", user: "u1", attributes: attributes(random) },
    { op: "put", user: "u2", attributes: attributes(random) },
    ...(chance(0.6) ? [{ op: "put" as const, user: "u3", attributes: attributes(random) }] : []),
    ...some(random, programs, 0.6).map((program) => publish(scenario, program, 2, true)),
    { op: "clock", to: 10 * minute },
    ...(chance(0.5) ? [{ op: "deposit" as const, asset, user: "", reference: "start", amount: unit * 500n }] : [])
  ]
}

const step = (scenario: Scenario): ReadonlyArray<Operation> =>
  scenario.random.chance(scenario.isStorm ? 0.08 : 0.02) ? refundOfPaid(scenario) : [single(scenario)]

const single = (scenario: Scenario): Operation => {
  const { below, chance, pick } = scenario.random
  if (scenario.isStorm && chance(0.3)) return movement(scenario, chance(0.75) ? "claim" : "deposit")
  const dice = below(100)
  if (dice < 58) return spend(scenario)
  if (dice < 61) return { op: "again", pick: below(1_000) }
  if (dice < 69) return { op: "clock", to: pick(clockMoves) }
  if (dice < 76) return movement(scenario, "deposit")
  if (dice < 78) return movement(scenario, "withdraw")
  if (dice < 90) return movement(scenario, "claim")
  if (dice < 93) return { op: "put", user: pick(users), attributes: attributes(scenario.random) }
  if (dice < 96) return publish(scenario, pick(programs), 1 + below(6), false)
  return { op: "worker" }
}

const clockMoves = ["claimable", "claimable", "before", 1, minute, hour, day, 14 * day, 31 * day] as const
