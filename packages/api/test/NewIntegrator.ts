import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Redacted } from "effect"
import { type Answer, TestApi } from "./TestApi.ts"

/** A request as tables write it. */
export type Request = readonly [method: string, path: string, json?: unknown]

/** Sends a request as some integrator. */
export type Send = (...request: Request) => Effect.Effect<Answer>

/** A new integrator, and its requests. */
export const newIntegrator = Effect.fnUntraced(function*(name: string) {
  const api = yield* TestApi
  const integratorId = IntegratorId.make(name)
  const key = Redacted.value((yield* (yield* Integrators).create(integratorId)).apiKey)
  const send: Send = (method, path, json) => api.send(method, path, { key, json })
  return { integratorId, key, send }
})
