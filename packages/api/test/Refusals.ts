import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { newIntegrator, type Request } from "./NewIntegrator.ts"
import { clearing, definition } from "./TestApi.ts"

export const url = "https://hooks.example.com/a"
const usdc = (amount: string) => ({ asset: "USDC", amount })
export const enroll = (userId: string, more: object = {}): Request => ["PUT", `/v1/users/${userId}`, more]
export const publish = (programId: string, version: number, changes: object = {}): Request => [
  "PUT",
  `/v1/programs/${programId}/versions/${version}`,
  definition({ ...changes })
]
export const spend = (changes: object = {}): Request => [
  "POST",
  "/v1/spend-events",
  clearing({ integratorId: "self", ...changes })
]
export const endpoint = (id: string, at = url): Request => ["POST", "/v1/webhook-endpoints", { id, url: at }]
export const move = (path: string, reference: string, amount: string, more: object = {}): Request => [
  "POST",
  `/v1/sandbox/${path}`,
  { reference, amount: usdc(amount), ...more }
]
export const clock = (now: string): Request => ["PUT", "/v1/sandbox/clock", { now }]

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

/** A spend event of the integrator that sends it. */
const asOwn = (integratorId: string, [method, path, json]: Request): Request => [
  method,
  path,
  JSON.parse(JSON.stringify(json ?? null).replaceAll(`"self"`, JSON.stringify(integratorId))) ?? undefined
]
