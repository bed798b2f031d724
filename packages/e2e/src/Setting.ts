import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import * as TestDatabase from "@card-rewards/dev-postgres/TestDatabase"
import { migratedDatabase } from "@card-rewards/testing/FreshDatabase"
import type { NetworkProxy } from "@card-rewards/testing/NetworkProxy"
import { until } from "@card-rewards/testing/Polling"
import { folder, freePort, shiftedClock, start, type Variables, variables } from "@card-rewards/testing/Processes"
import { createIntegrator } from "@card-rewards/testing/Provision"
import * as RawClient from "@card-rewards/testing/RawClient"
import type { Running } from "@card-rewards/testing/TestProcess"
import { Effect, Redacted } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { integratorId } from "./World.ts"

/** An empty database on the server of the test run, which is removed when the scope closes. */
export const emptyDatabase = Effect.map(TestDatabase.makeEmpty, (url) => Redacted.value(url))

/** Runs statements as the database's owner, over a connection that is closed at the end. */
export const withConnection = <A, E, R>(url: string, run: (sql: AdminSql.Connection) => Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.flatMap(Effect.orDie(AdminSql.connect(Redacted.make(url))), run))

/** Runs a statement as the database's owner, over a connection of its own. */
export const query = <A extends object>(url: string, text: string) =>
  Effect.orDie(withConnection(url, (sql) => sql.unsafe<A>(text)))

/** Repeats a query over one connection until its rows are as wanted; see {@link until}. */
export const untilRows = (
  what: string,
  url: string,
  text: string,
  holds: (rows: ReadonlyArray<unknown>) => boolean,
  seconds?: number
) =>
  Effect.orDie(withConnection(url, (sql) => until(what, sql.unsafe(text), holds, seconds)))

/** Longer than a worker's lease on a delivery. */
export const leaseOutlivedMillis = 65_000

/**
 * A migrated database with an integrator, one api that is healthy, and one worker, reached through
 * a proxy where there is one. Their clocks can be shifted.
 */
export const service = Effect.fnUntraced(function*(
  options: { readonly proxy?: NetworkProxy["Service"]; readonly more?: Variables } = {}
) {
  const url = Redacted.value(yield* migratedDatabase)
  const port = yield* freePort
  const shiftFile = join(yield* folder, "shift")
  const shiftClocks = (millis: number) => Effect.sync(() => writeFileSync(shiftFile, `${millis}`))
  yield* shiftClocks(0)
  const apiKey = yield* createIntegrator(Redacted.make(url), integratorId)
  const reached = options.proxy === undefined ? url : Redacted.value(options.proxy.through(Redacted.make(url)))
  const env = variables(reached, { PORT: `${port}`, CLOCK_SHIFT_FILE: shiftFile, ...options.more })
  const api = yield* start("api", env, { preload: shiftedClock })
  const startWorker = start("worker", env, { preload: shiftedClock })
  let worker = yield* startWorker
  yield* healthy(port, api)
  const baseUrl = `http://127.0.0.1:${port}`
  return {
    url,
    port,
    env,
    api,
    apiKey,
    client: RawClient.make({ baseUrl: () => baseUrl, apiKey }),
    shiftClocks,
    worker: () => worker,
    /** Starts another worker, after every lease of the one before has expired. */
    replaceWorker: Effect.gen(function*() {
      yield* worker.send("SIGTERM")
      yield* worker.exit
      yield* shiftClocks(leaseOutlivedMillis)
      worker = yield* startWorker
    })
  }
})

/** Waits until an api answers. Dies with its output where the api has ended. */
export const healthy = (port: number, api: Pick<Running, "isAlive" | "output">) =>
  until(
    "health",
    Effect.promise(async () => {
      if (!api.isAlive()) throw new Error(`the api has ended: ${api.output()}`)
      return fetch(`http://127.0.0.1:${port}/health`).then(({ status }) => status, () => 0)
    }),
    (status) => status === 204
  )
