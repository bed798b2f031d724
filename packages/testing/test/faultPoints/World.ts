import { Integrators } from "@card-rewards/core/Integrators"
import type { RetryDelays } from "@card-rewards/domain/Delivery"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { ApiServer } from "@card-rewards/testing/ApiServer"
import { FreshDatabase, operators } from "@card-rewards/testing/FreshDatabase"
import * as HttpExchange from "@card-rewards/testing/HttpExchange"
import * as Worker from "@card-rewards/testing/Worker"
import { Context, Effect, Layer, Redacted, Schedule } from "effect"
import { OpenApi } from "effect/http-api"
import { SqlClient } from "effect/sql"
import * as Receiver from "./FaultyReceiver.ts"
import type { Points } from "./Points.ts"
import * as StatementProxy from "./StatementProxy.ts"

/** Stalls are longer than the api's database deadline, and than a lease on an endpoint. */
const apiStallMillis = 5_000
const workerStallMillis = 1_500
const leaseMillis = 1_200
const sealMillis = 50

/** Enough that no delivery is exhausted: every event must arrive. */
const retryDelays: RetryDelays = [20, ...Array.from({ length: 30 }, () => 50)]

/** Every operation of the sandbox, as the interface's description names it: `GET /v1/users/{userId}`. */
export const operations = Object.entries(OpenApi.fromApi(SandboxApi).paths).flatMap(([path, item]) =>
  Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`))

const patterns = operations.toSorted((a, b) => a.split("{").length - b.split("{").length)
  .map((name) => ({ name, pattern: new RegExp(`^${name.replaceAll(/\{\w+\}/g, "[^/]+")}$`) }))

const operationOf = (method: string, path: string): string =>
  patterns.find(({ pattern }) => pattern.test(`${method} ${path.split("?")[0]}`))?.name ?? "unknown"

/** Sends the same request until it is answered other than 503 (contract, section 7). */
export type Send = (method: string, path: string, body?: unknown, apiKey?: string) => Effect.Effect<HttpExchange.Answer>

/** Api and worker over a database of their own. Each of their statements and deliveries passes a point. */
export const make = Effect.fnUntraced(function*(points: Points) {
  const database = yield* Layer.build(FreshDatabase.layer)
  const { hostname, port } = new URL(Redacted.value(Context.get(database, FreshDatabase).url))
  const own = yield* Layer.build(operators("sandbox").pipe(Layer.provide(Layer.succeedContext(database))))
  const through = yield* StatementProxy.make({ host: hostname, port: Number(port) }, {
    statement: points.statement,
    stallMillis: (application) => application === "test api" ? apiStallMillis : workerStallMillis
  })
  const { apiKey } = yield* Context.get(own, Integrators).create(IntegratorId.make("acme"))
  const service = yield* Layer.build(
    Layer.merge(ApiServer.layer({ through }), Worker.layer({ retryDelays, leaseMillis, sealMillis, through })).pipe(
      Layer.provide(Layer.succeedContext(database))
    )
  )
  const { baseUrl } = Context.get(service, ApiServer)
  const receiver = yield* Receiver.listen(points)
  const sql = Context.get(own, SqlClient.SqlClient)
  const send = yield* sender(baseUrl, Redacted.value(apiKey), points)
  return { apiKey, sql, receiver, send }
})

export type World = Effect.Success<ReturnType<typeof make>>

const pauseMillis = 20

const sender = (baseUrl: string, first: string, points: Points) =>
  Effect.map(HttpExchange.makeAgent, (agent): Send => (method, path, json, key = first) =>
    Effect.suspend(() => {
      points.operation = operationOf(method, path)
      return HttpExchange.exchange({ agent, baseUrl }, method, path, { key, json })
    }).pipe(
      Effect.filterOrFail(({ status }) => status !== 503),
      Effect.retry(Schedule.spaced(pauseMillis)),
      Effect.orDie
    ))
