import { Integrators } from "@card-rewards/core/Integrators"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Api } from "@card-rewards/testing/Api"
import { FreshDatabase, operators } from "@card-rewards/testing/FreshDatabase"
import * as Worker from "@card-rewards/testing/Worker"
import { Context, Effect, Layer, Redacted } from "effect"
import { OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import * as Receiver from "./FaultyReceiver.ts"
import type { Points } from "./Points.ts"
import * as StatementProxy from "./StatementProxy.ts"

/** Stalls are longer than what they are up against: the api's patience with its database, and a claim on a delivery. */
const apiStallMillis = 5_000
const workerStallMillis = 1_500
const claimMillis = 1_200

/** Never exhausted: every event must arrive. */
const retryDelays: RetryDelays = [20, ...Array.from({ length: 30 }, () => 50)]

/** Every operation of the sandbox, as the interface's description names it: `GET /v1/users/{userId}`. */
export const operations = Object.entries(OpenApi.fromApi(SandboxApi).paths).flatMap(([path, item]) =>
  Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`))

const patterns = operations.toSorted((a, b) => a.split("{").length - b.split("{").length)
  .map((name) => ({ name, pattern: new RegExp(`^${name.replaceAll(/\{\w+\}/g, "[^/]+")}$`) }))

const operationOf = (method: string, path: string): string =>
  patterns.find(({ pattern }) => pattern.test(`${method} ${path.split("?")[0]}`))?.name ?? "unknown"

/** An answer, its body parsed. */
export interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/** Sends the same request until it is answered other than 503 (contract, section 7). */
export type Send = (method: string, path: string, body?: unknown, apiKey?: string) => Effect.Effect<Answer>

/** Api and worker over a database of their own; every one of their statements and deliveries passes the points. */
export const make = Effect.fnUntraced(function*(points: Points) {
  const database = yield* Layer.build(FreshDatabase.layer)
  const { url } = Context.get(database, FreshDatabase)
  const own = yield* Layer.build(operators("sandbox").pipe(Layer.provide(Layer.succeedContext(database))))
  const throughProxy = yield* StatementProxy.through(url, {
    statement: points.statement,
    stallMillis: (application) => application === "test api" ? apiStallMillis : workerStallMillis
  })
  const { apiKey } = yield* Context.get(own, Integrators).create(IntegratorId.make("acme"))
  const service = yield* Layer.build(
    Layer.merge(Api.layer(), Worker.layer({ retryDelays, claimMillis })).pipe(
      Layer.provide(Layer.succeed(FreshDatabase, FreshDatabase.of({ url: throughProxy })))
    )
  )
  const { baseUrl } = Context.get(service, Api)
  const receiver = yield* Receiver.listen(points)
  const sql = Context.get(own, SqlClient.SqlClient)
  return { apiKey, sql, receiver, send: sender(baseUrl, Redacted.value(apiKey), points) }
})

export type World = Effect.Success<ReturnType<typeof make>>

const pauseMillis = 20

const sender = (baseUrl: string, first: string, points: Points): Send => (method, path, body, apiKey = first) =>
  Effect.promise(async () => {
    points.operation = operationOf(method, path)
    while (true) {
      const answer = await exchange(`${baseUrl}${path}`, method, apiKey, body).catch(() => undefined)
      if (answer !== undefined && answer.status !== 503) return answer
      await new Promise((resolve) => setTimeout(resolve, pauseMillis))
    }
  })

const exchange = async (url: string, method: string, apiKey: string, body: unknown): Promise<Answer> => {
  const response = await fetch(url, {
    method,
    headers: { "x-api-key": apiKey, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  return { status: response.status, body: text === "" ? {} : JSON.parse(text) }
}
