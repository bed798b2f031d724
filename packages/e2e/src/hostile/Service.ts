import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { migratedDatabase } from "@card-rewards/testing/FreshDatabase"
import { admin, freePort, start as startProgram, variables } from "@card-rewards/testing/Processes"
import type { Running } from "@card-rewards/testing/TestProcess"
import { Effect, Redacted } from "effect"
import { healthy } from "../Setting.ts"

/** An integrator and its first API key. */
export interface Credentials {
  readonly integratorId: string
  readonly apiKey: string
}

/** One api and one worker over a database of their own. */
export interface Service {
  readonly baseUrl: string
  /** The database, as its owner. */
  readonly url: string
  readonly api: Running
  readonly worker: Running
  /** The database's owner: only what no operation of the api offers in bulk is written by it. */
  readonly sql: AdminSql.Connection
  /** Dies with the findings where the audit does not hold. */
  readonly audit: Effect.Effect<string>
}

/** Starts a service whose rate limits are off: what one integrator may cost the others must not depend on them. */
export const start = Effect.gen(function*() {
  const url = Redacted.value(yield* migratedDatabase)
  const port = yield* freePort
  const env = variables(url, { PORT: `${port}` })
  const api = yield* startProgram("api", env)
  const worker = yield* startProgram("worker", env)
  yield* healthy(port, api)
  const sql = yield* AdminSql.connect(Redacted.make(url))
  const service: Service = { baseUrl: `http://127.0.0.1:${port}`, url, api, worker, sql, audit: admin(env, "audit") }
  return service
})
