import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Redacted } from "effect"
import { type Answer, TestApi } from "./TestApi.ts"

/** A request as tables write it. */
export type Request = readonly [method: string, path: string, json?: unknown]

/** A new integrator, and its requests. */
export const newIntegrator = Effect.fnUntraced(function*(name: string) {
  const api = yield* TestApi
  const integratorId = IntegratorId.make(name)
  const key = Redacted.value((yield* (yield* Integrators).create(integratorId)).apiKey)
  const send = (...[method, path, json]: Request): Effect.Effect<Answer> => api.send(method, path, { key, json })
  return { integratorId, key, send }
})
