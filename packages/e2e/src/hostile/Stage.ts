import { createIntegrator } from "@card-rewards/testing/Provision"
import { Context, Effect, Layer, Redacted } from "effect"
import type { Attack, Form, Outcome } from "./Attack.ts"
import * as Attacker from "./Attacker.ts"
import * as Innocent from "./Innocent.ts"
import * as Service from "./Service.ts"

/** An attack in one of its sizes. */
export interface Chosen {
  readonly attack: Attack
  readonly form: Form
}

/** An attack whose preparation is done. */
export interface Prepared extends Chosen {
  readonly attacker: Attacker.Attacker
  readonly assault: Effect.Effect<Outcome>
}

/** Prepares an attack; each attempt needs an integrator of its own. */
export const prepare = Effect.fnUntraced(function*(
  service: Service.Service,
  { attack, form }: Chosen,
  attempt: number
) {
  const attacker = yield* Attacker.make(service, `${attack.name}-${attempt}`)
  const prepared: Prepared = { attack, form, attacker, assault: yield* form.prepare(attacker) }
  return prepared
})

/** A service, with the innocent integrator at work and the first attempts of attacks prepared. */
export class Stage extends Context.Service<Stage, {
  readonly service: Service.Service
  readonly innocent: Innocent.Innocent
  readonly prepared: ReadonlyArray<Prepared>
  /** Beside the innocent integrator's work. Dies with the findings where the audit does not hold. */
  readonly audit: Effect.Effect<string>
}>()("@card-rewards/e2e/hostile/Stage") {
  /** The innocent integrator begins once all attacks are prepared, which is not judged. */
  static readonly layer = (attacks: ReadonlyArray<Chosen>) =>
    Layer.effect(
      Stage,
      Effect.gen(function*() {
        const service = yield* Service.start
        const integratorId = "innocent"
        const apiKey = yield* createIntegrator(Redacted.make(service.url), integratorId)
        const prepared = yield* Effect.forEach(attacks, (chosen) => prepare(service, chosen, 1))
        const innocent = yield* Innocent.start({ baseUrl: service.baseUrl, integratorId, apiKey })
        return Stage.of({ service, innocent, prepared, audit: service.audit })
      })
    )
}
