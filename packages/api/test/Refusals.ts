import * as Requests from "@card-rewards/testing/Requests"
import type { Request } from "@card-rewards/testing/Requests"
import { newIntegrator } from "@card-rewards/testing/TestApi"
import { assert } from "@effect/vitest"
import { Effect } from "effect"

/** A spend event of the integrator that sends it. */
export const spend = (changes: Readonly<Record<string, unknown>> = {}): Request =>
  Requests.spend({ integratorId: "self", ...changes })

/** What came before, the request, and the whole answer. */
export interface Case {
  readonly before?: ReadonlyArray<Request>
  readonly request: Request
  readonly status: number
  readonly body: object
}

/** A new integrator makes the requests; the last one's answer. */
export const run = Effect.fnUntraced(function*(integratorId: string, { before = [], request, status }: Case) {
  const { send } = yield* newIntegrator(integratorId)
  for (const one of before) yield* send(...asOwn(integratorId, one))
  const answer = yield* send(...asOwn(integratorId, request))
  assert.strictEqual(answer.status, status, answer.text)
  return answer
})

/** The request with the integrator's id in place of `self`. */
const asOwn = (integratorId: string, [method, path, json]: Request): Request => [
  method,
  path,
  JSON.parse(JSON.stringify(json ?? null).replaceAll(`"self"`, JSON.stringify(integratorId))) ?? undefined
]
