import { Effect } from "effect"
import type { Attack, Form, Outcome } from "./Attack.ts"
import * as Attacker from "./Attacker.ts"

/**
 * The short forms of attacks one after another, each by an integrator of its own, measured as one: most of a short
 * form's time is spent before and after the attack. An attack shows where it slows a twentieth of all posts.
 */
export const sequence = (name: string, attacks: ReadonlyArray<Attack>): Attack => {
  const parts = attacks.flatMap(({ maxSeconds, name, short }) =>
    short === undefined ? [] : [{ name, maxSeconds, short }]
  )
  const form: Form = {
    what: parts.map(({ short }) => short.what).join(", then "),
    prepare: Effect.fnUntraced(function*({ integratorId, service }) {
      const assaults = yield* Effect.forEach(parts, ({ name, short }) =>
        Effect.flatMap(Attacker.make(service, `${integratorId}-${name}`), short.prepare))
      return Effect.map(Effect.all(assaults), (outcomes): Outcome => ({
        figures: outcomes.flatMap(({ figures }, index) => `${parts[index]?.name}: ${figures.join(", ")}`),
        failures: outcomes.flatMap(({ failures }) => failures)
      }))
    })
  }
  return { name, short: form, full: form, maxSeconds: parts.reduce((sum, { maxSeconds }) => sum + maxSeconds, 0) }
}
