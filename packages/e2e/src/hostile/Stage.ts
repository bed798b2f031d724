import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { migratedDatabase } from "@card-rewards/testing/FreshDatabase"
import { admin, freePort, start, variables } from "@card-rewards/testing/Processes"
import { createIntegrator } from "@card-rewards/testing/Provision"
import type { Running } from "@card-rewards/testing/TestProcess"
import { Context, Effect, Layer, Redacted } from "effect"
import { healthy } from "../Setting.ts"
import * as Innocent from "./Innocent.ts"

/** An integrator and its first API key. */
export interface Credentials {
  readonly integratorId: string
  readonly apiKey: string
}

/** One api and one worker over a database of their own, with the innocent integrator at work. */
export class Stage extends Context.Service<Stage, {
  readonly baseUrl: string
  /** The database, as its owner. */
  readonly url: string
  readonly api: Running
  readonly worker: Running
  readonly innocent: Innocent.Innocent
  /** The database's owner: only what no operation of the api offers in bulk is written by it. */
  readonly sql: AdminSql.Connection
  /** Ends the innocent integrator's work first. Dies with the findings where the audit does not hold. */
  readonly audit: Effect.Effect<string>
}>()("@card-rewards/e2e/hostile/Stage") {
  /** Rate limits are off: what one integrator may cost the others must not depend on them. */
  static readonly layer = Layer.effect(
    Stage,
    Effect.gen(function*() {
      const url = Redacted.value(yield* migratedDatabase)
      const port = yield* freePort
      const env = variables(url, { PORT: `${port}` })
      const integratorId = "innocent"
      const credentials = { integratorId, apiKey: yield* createIntegrator(Redacted.make(url), integratorId) }
      const api = yield* start("api", env)
      const worker = yield* start("worker", env)
      yield* healthy(port, api)
      const baseUrl = `http://127.0.0.1:${port}`
      const innocent = yield* Innocent.start({ baseUrl, ...credentials })
      const sql = yield* AdminSql.connect(Redacted.make(url))
      const audit = Effect.andThen(innocent.stop, admin(env, "audit"))
      return Stage.of({ baseUrl, url, api, worker, innocent, sql, audit })
    })
  )
}
