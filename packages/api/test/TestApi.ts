import { ApiKeys } from "@card-rewards/core/ApiKeys"
import * as Database from "@card-rewards/core/Database"
import { Environment } from "@card-rewards/core/Environment"
import { Integrators } from "@card-rewards/core/Integrators"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { IntegratorId, type VaultId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { Agent, request as nodeRequest } from "node:http"
import * as Http from "../src/Http.ts"
import type { Limits } from "../src/Pipeline/RateLimit.ts"
import * as Server from "../src/Server.ts"
import * as Services from "../src/Services.ts"

/** An answer of the api, its body parsed where it is JSON. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Readonly<Record<string, unknown>>
  readonly text: string
}

/** What a test sends; `json` is written as it is where it is a string or bytes. */
export interface Sent {
  readonly key?: string | undefined
  readonly json?: unknown
  readonly raw?: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * The api over real HTTP and a database of its own, with the integrators `acme` and `other`. It simulates one
 * purchase.
 */
export class TestApi extends Context.Service<TestApi, {
  readonly port: number
  readonly databaseUrl: Redacted.Redacted
  readonly key: string
  readonly otherKey: string
  /** Sends a request as `acme`, or with the key that is given; an empty key is none. */
  readonly send: (method: string, path: string, sent?: Sent) => Effect.Effect<Answer>
}>()("@card-rewards/api/test/TestApi") {
  static readonly layer = (
    options: { readonly environment?: VaultId; readonly limits?: Partial<Limits>; readonly throughProxy?: true } = {}
  ) =>
    Layer.effectContext(Effect.gen(function*() {
      const environment = options.environment ?? "sandbox"
      const url = yield* TestDatabase.makeMigrated(Database.migrate)
      const database = { url, poolSize: 4, applicationName: "api test" }
      const proxy = yield* Effect.serviceOption(NetworkProxy)
      const services = yield* Layer.build(Services.layer({
        database: {
          ...database,
          role: "api",
          url: options.throughProxy === true && Option.isSome(proxy) ? proxy.value.through(url) : url
        },
        environment,
        secretsKeys: [Redacted.make(new Uint8Array(32).fill(7))],
        allowPrivateNetwork: false,
        simulationLimits: { transactions: 1, millis: 60_000 },
        limits: { ingest: "off", read: "off", manage: "off", auth: "off", ...options.limits }
      }))
      const operators = yield* Layer.build(
        Integrators.layer.pipe(
          Layer.provideMerge(Layer.merge(Environment.layer(environment), Database.layer(database)))
        )
      )
      const integrators = Context.get(operators, Integrators)
      const acme = yield* integrators.create(IntegratorId.make("acme"))
      const other = yield* integrators.create(IntegratorId.make("other"))
      const answer = yield* Effect.provideContext(Http.make(environment), services)
      const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0 }))
      const { address } = Context.get(server, HttpServer.HttpServer)
      yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server))
      const port = "port" in address ? address.port : 0
      const key = Redacted.value(acme.apiKey)
      const agent = yield* Effect.acquireRelease(
        Effect.sync(() => new Agent({ keepAlive: true })),
        (connections) => Effect.sync(() => connections.destroy())
      )
      return Context.make(
        TestApi,
        TestApi.of({
          port,
          databaseUrl: url,
          key,
          otherKey: Redacted.value(other.apiKey),
          send: (method, path, sent = {}) => exchange({ port, agent }, method, path, { key, ...sent })
        })
      ).pipe(
        Context.add(Integrators, integrators),
        Context.add(ApiKeys, Context.get(services, ApiKeys)),
        Context.add(SqlClient.SqlClient, Context.get(operators, SqlClient.SqlClient))
      )
    }))
}

/** One request by node:http, which sends paths as they are. */
const exchange = (
  server: { readonly port: number; readonly agent: Agent },
  method: string,
  path: string,
  sent: Sent
): Effect.Effect<Answer> =>
  Effect.callback<Answer, Error>((resume) => {
    const body = sent.raw ?? (sent.json === undefined ? undefined : JSON.stringify(sent.json))
    const headers = {
      ...(sent.key === undefined || sent.key === "" ? {} : { "x-api-key": sent.key }),
      ...(body === undefined ? {} : { "content-type": "application/json", "content-length": `${Buffer.byteLength(body)}` }),
      ...sent.headers
    }
    const outgoing = nodeRequest({ host: "127.0.0.1", ...server, method, path, headers: withoutEmpty(headers) }, (incoming) => {
      const chunks: Array<Buffer> = []
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
      incoming.on("end", () => {
        const text = Buffer.concat(chunks).toString()
        resume(Effect.succeed({
          status: incoming.statusCode ?? 0,
          headers: Object.fromEntries(
            Object.entries(incoming.headers).map(([name, value]) => [name, value?.toString()])
          ),
          body: parse(text),
          text
        }))
      })
    })
    outgoing.on("error", (error) => resume(Effect.fail(error)))
    outgoing.end(body)
  }).pipe(Effect.orDie)

const withoutEmpty = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""))

const parse = (text: string): Readonly<Record<string, unknown>> => {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

/** A clearing of `acme`'s user, changed where a test wants. */
export const clearing = (changes: Readonly<Record<string, unknown>> = {}) => ({
  kind: "clearing",
  integratorId: "acme",
  userId: "ann",
  externalTransactionId: "t1",
  amount: { currency: "USD", amount: "12345" },
  merchant: { descriptor: "Shop", mcc: "5411" },
  occurredAt: "2026-01-01T00:00:00.000Z",
  ...changes
})

/** A program version that is published without problems. */
export const definition = (changes: Readonly<Record<string, unknown>> = {}) => ({
  ...plainProgram,
  effectiveFrom: "2099-12-01T00:00:00.000Z",
  categories: [{ id: "groceries", mccs: ["5411"] }],
  categoryRates: [{ categoryId: "groceries", rate: 300 }],
  caps: { perMonth: "50000000", categories: [] },
  holdingPeriodDays: 14,
  ...changes
})
