import type * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { until } from "@card-rewards/testing/Polling"
import { createIntegrator } from "@card-rewards/testing/Provision"
import * as RawClient from "@card-rewards/testing/RawClient"
import { moveMoney } from "@card-rewards/testing/Requests"
import { Effect, Redacted } from "effect"
import { expect, iso } from "../World.ts"
import type { Credentials, Service } from "./Service.ts"
import { wallMillis } from "./Samples.ts"

/** More than the five minutes that a version must be published ahead. */
export const leadMillis = 600_000
export const dayMillis = 86_400_000

/** Requests of an attacker at once; its client keeps that many connections. */
const connections = 64
/** A request without an answer is sent again after this. */
const requestTimeoutMillis = 30_000
/** Preparations end within this, or the run fails. */
const preparedWithinSeconds = 900

/** What a clearing of one dollar earns in a plain program, 1 %, in smallest units of USDC. */
export const rewardOfDollar = 10_000n

/** An integrator that does what the contract allows, as its client would: what is 503 or 429 is sent again. */
export interface Attacker {
  readonly integratorId: string
  readonly apiKey: string
  readonly service: Service
  readonly sql: AdminSql.Connection
  readonly client: RawClient.RawClient
}

/** A new integrator, and its client. */
export const make = Effect.fnUntraced(function*(service: Service, integratorId: string) {
  const apiKey = yield* createIntegrator(Redacted.make(service.url), integratorId)
  return clientOf(service, { integratorId, apiKey })
})

const clientOf = (service: Service, { apiKey, integratorId }: Credentials): Attacker => ({
  integratorId,
  apiKey,
  service,
  sql: service.sql,
  client: RawClient.make({ baseUrl: () => service.baseUrl, apiKey, connections, timeoutMillis: requestTimeoutMillis })
})

/** The integrator's sandbox clock, in milliseconds. */
export const clock = Effect.fnUntraced(function*({ client }: Attacker) {
  const { now } = JSON.parse((yield* expect(200, client.sendWithRetries("GET", "/v1/sandbox/clock"))).text)
  return Date.parse(now)
})

/** Moves the sandbox clock forward to an instant. */
export const moveClock = ({ client }: Attacker, to: number) =>
  expect(200, client.sendWithRetries("PUT", "/v1/sandbox/clock", { now: iso(to) }))

/** A program version that pays 1 %, with nothing capped. */
export const definition = (effectiveFrom: number, changes: object = {}) => ({
  ...plainProgram,
  caps: { perMonth: `1${"0".repeat(40)}`, categories: [] },
  effectiveFrom: iso(effectiveFrom),
  ...changes
})

export const publish = ({ client }: Attacker, programId: string, version: number, body: object) =>
  expect(200, client.sendWithRetries("PUT", `/v1/programs/${programId}/versions/${version}`, body))

/** Publishes a version of programs `program-0`, `program-1`, …, and moves the clock to when it takes effect. */
export const publishPlain = Effect.fnUntraced(function*(
  attacker: Attacker,
  changes: object = {},
  options: { readonly programs?: number; readonly version?: number } = {}
) {
  const { programs = 1, version = 1 } = options
  const begin = (yield* clock(attacker)) + leadMillis
  const ids = Array.from({ length: programs }, (_, index) => `program-${index}`)
  yield* Effect.forEach(ids, (id) => publish(attacker, id, version, definition(begin, changes)), {
    concurrency: 4,
    discard: true
  })
  yield* moveClock(attacker, begin)
  return begin
})

export const deposit = ({ client }: Attacker, reference: string, amount: bigint) =>
  expect(200, client.sendWithRetries(...moveMoney("deposits", reference, `${amount}`)))

/** The answer to a claim, whatever its status. */
export const claim = ({ client }: Attacker, reference: string, userId: string, amount: bigint) =>
  client.sendWithRetries(...moveMoney("claims", reference, `${amount}`, { userId }))

/** A spend event of one dollar. */
export const spendEvent = (
  { integratorId }: Attacker,
  kind: "authorization" | "clearing" | "refund",
  userId: string,
  externalTransactionId: string,
  occurredAt: number,
  link: object = {}
) => ({
  kind,
  integratorId,
  userId,
  externalTransactionId,
  amount: { currency: "USD", amount: "100" },
  merchant: { descriptor: "Shop", mcc: "5411" },
  occurredAt: iso(occurredAt),
  ...link
})

/** Posts spend events over all of the attacker's connections. */
export const postAll = ({ client }: Attacker, events: ReadonlyArray<object>) =>
  Effect.forEach(events, (event) => expect(202, client.sendWithRetries("POST", "/v1/spend-events", event)), {
    concurrency: connections,
    discard: true
  })

/** USDC that the user can claim now, in smallest units. */
export const claimable = Effect.fnUntraced(function*({ client }: Attacker, userId: string) {
  const { text } = yield* expect(200, client.sendWithRetries("GET", `/v1/users/${userId}/balance`))
  const { balances }: { readonly balances: ReadonlyArray<{ readonly asset: string; readonly claimable: string }> } =
    JSON.parse(text)
  return BigInt(balances.find(({ asset }) => asset === "USDC")?.claimable ?? "0")
})

/** Waits until no stored event is left to be processed. */
export const processed = (attacker: Attacker, seconds = preparedWithinSeconds) =>
  nothingLeft(attacker, "stored spend events", `FROM spend_event_queue WHERE integrator_id = $1`, seconds)

/** Waits until no reward is due at an instant of the sandbox clock and still Pending. */
export const matured = (attacker: Attacker, at: number, seconds = preparedWithinSeconds) =>
  nothingLeft(
    attacker,
    "due rewards",
    `FROM rewards WHERE integrator_id = $1 AND state = 'Pending' AND claimable_at <= '${iso(at)}'`,
    seconds
  )

/** Waits until no reward is without its money. */
export const funded = (attacker: Attacker, seconds = preparedWithinSeconds) =>
  nothingLeft(
    attacker,
    "rewards waiting for funding",
    `FROM rewards WHERE integrator_id = $1 AND state = 'AwaitingFunding'`,
    seconds
  )

/** Waits until no reward can be claimed. */
export const paid = (attacker: Attacker, seconds = preparedWithinSeconds) =>
  nothingLeft(
    attacker,
    "claimable rewards",
    `FROM rewards WHERE integrator_id = $1 AND state = 'Claimable'`,
    seconds
  )

const nothingLeft = ({ integratorId, sql }: Attacker, what: string, from: string, seconds: number) =>
  until(
    what,
    Effect.orDie(sql.unsafe<{ left: boolean }>(`SELECT EXISTS (SELECT ${from}) AS left`, [integratorId])),
    ([row]) => row?.left === false,
    seconds
  )

/** How often the attacker was refused or not answered; nothing where it never was. */
export const refusals = ({ client: { failures } }: Attacker): ReadonlyArray<string> => [
  ...(failures.busy === 0 ? [] : [`503 × ${failures.busy}`]),
  ...(failures.noAnswer === 0 ? [] : [`no answer × ${failures.noAnswer}`])
]

/** An effect's result, and the seconds that it took. */
export const timed = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const startedAt = wallMillis()
  const value = yield* effect
  return { value, seconds: (wallMillis() - startedAt) / 1_000 }
})
