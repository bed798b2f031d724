import { clearing, definition, hookUrl as url, usdc } from "@card-rewards/testing/Requests"

/** Every answer that the contract (sections 4 and 7) declares: of each operation the statuses, with errors' tags. */
const own: Readonly<Record<string, ReadonlyArray<string>>> = {
  "GET /health": ["204"],
  "POST /v1/spend-events": [
    "202",
    "403 IntegratorMismatch",
    "409 SpendEventConflict",
    "422 EventInFuture",
    "422 UserNotEnrolled"
  ],
  "GET /v1/users/{userId}/balance": ["200", "404 NotFound"],
  "PUT /v1/users/{userId}": ["200", "409 ReferrerConflict", "422 ReferrerNotEnrolled"],
  "GET /v1/users/{userId}": ["200", "404 NotFound"],
  "GET /v1/users/{userId}/rewards": ["200"],
  "PUT /v1/programs/{programId}/versions/{version}": ["200", "409 ProgramVersionConflict", "422 ProgramRefused"],
  "GET /v1/programs": ["200"],
  "GET /v1/programs/{programId}": ["200", "404 NotFound"],
  "GET /v1/api-keys": ["200"],
  "POST /v1/api-keys": ["201", "422 ApiKeyLimit"],
  "DELETE /v1/api-keys/{name}": ["200", "404 NotFound", "422 LastActiveKey"],
  "GET /v1/webhook-endpoints": ["200"],
  "POST /v1/webhook-endpoints": [
    "201",
    "409 WebhookEndpointConflict",
    "422 WebhookEndpointLimit",
    "422 EndpointUrlRefused"
  ],
  "GET /v1/webhook-endpoints/{id}": ["200", "404 NotFound"],
  "PATCH /v1/webhook-endpoints/{id}": ["200", "404 NotFound", "422 EndpointUrlRefused"],
  "DELETE /v1/webhook-endpoints/{id}": ["200", "404 NotFound"],
  "POST /v1/webhook-endpoints/{id}/rotate-secret": ["200", "404 NotFound"],
  "GET /v1/sandbox/vault": ["200"],
  "POST /v1/sandbox/deposits": ["200", "409 SimulationConflict", "422 SimulationRefused"],
  "POST /v1/sandbox/withdrawals": ["200", "409 SimulationConflict", "422 SimulationRefused"],
  "POST /v1/sandbox/claims": ["202", "409 SimulationConflict", "422 SimulationRefused", "422 UserNotEnrolled"]
}

/** The operations that take nothing, so that no request for them is malformed. */
const takesNothing: ReadonlyArray<string> = [
  "GET /v1/programs",
  "GET /v1/api-keys",
  "GET /v1/webhook-endpoints",
  "GET /v1/sandbox/vault"
]

const border = ["401 Unauthorized", "403 IntegratorSuspended", "429 RateLimited", "503 Unavailable"]

/** The names of the operations: `GET /v1/users/{userId}`. */
export const operations: ReadonlyArray<string> = Object.keys(own)

/** `GET /v1/users/{userId} 404 NotFound` and so on. */
export const contractAnswers: ReadonlyArray<string> = Object.entries(own).flatMap(([operation, answers]) => {
  const malformed = takesNothing.includes(operation) ? [] : ["400 InvalidRequest"]
  const all = operation === "GET /health" ? answers : [...answers, ...malformed, ...border]
  return all.map((answer) => `${operation} ${answer}`)
})

/** A body for each operation that takes one. */
const bodies: Readonly<Record<string, unknown>> = {
  "POST /v1/spend-events": clearing(),
  "PUT /v1/users/{userId}": {},
  "PUT /v1/programs/{programId}/versions/{version}": definition(),
  "POST /v1/api-keys": { name: "k" },
  "POST /v1/webhook-endpoints": { id: "e", url },
  "PATCH /v1/webhook-endpoints/{id}": { url },
  "POST /v1/sandbox/deposits": { reference: "r", amount: usdc("1") },
  "POST /v1/sandbox/withdrawals": { reference: "r", amount: usdc("1") },
  "POST /v1/sandbox/claims": { reference: "r", amount: usdc("1"), userId: "ann" }
}

/** A well-formed request for each operation with a key, and one that is not. */
export const borderRequests: ReadonlyArray<{
  readonly operation: string
  readonly good: readonly [method: string, path: string, body?: unknown]
  readonly bad?: readonly [method: string, path: string, raw?: string]
}> = operations.filter((operation) => operation !== "GET /health").map((operation) => {
  const [method = "", template = ""] = operation.split(" ")
  const path = template.replace("{version}", "1").replace(/\{\w+\}/g, "x")
  const body = bodies[operation]
  if (body !== undefined) return { operation, good: [method, path, body], bad: [method, path, "{"] }
  if (takesNothing.includes(operation)) return { operation, good: [method, path] }
  return { operation, good: [method, path], bad: [method, template.replace(/\{\w+\}/g, "%00")] }
})
