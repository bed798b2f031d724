import type * as Database from "@card-rewards/core/Database"
import type * as Undelivered from "@card-rewards/dev-postgres/Undelivered"
import { undelivered } from "@card-rewards/dev-postgres/Undelivered"
import type * as EffectModule from "effect"
import { Context, Effect, Redacted, type Scope } from "effect"
import type * as SqlModule from "effect/sql"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { basename, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { InvalidRun } from "./Measure.ts"
import type * as Backlog from "./measures/Backlog.ts"
import { type EventQueue, eventQueue } from "./measures/Backlog.ts"
import type * as Endpoints from "./measures/Endpoints.ts"
import { addEndpoints } from "./measures/Endpoints.ts"
import type * as StoredEvents from "./measures/StoredEvents.ts"
import { storeEvents } from "./measures/StoredEvents.ts"
import { ownRoot } from "./Processes.ts"
import type * as Seed from "./Seed.ts"
import { type Population, population } from "./Seed.ts"
import type { Fill } from "./Server.ts"
import type * as SpendEvents from "./SpendEvents.ts"

/** A checkout of this repository, whose service is a competitor. */
export interface Checkout {
  readonly name: string
  /** Its absolute path. */
  readonly root: string
  /** A population in the schema of the checkout's own migrations. */
  readonly population: (options: Population) => Fill
  /** The spend event queue of a database with that schema. */
  readonly eventQueue: (url: Redacted.Redacted) => Effect.Effect<EventQueue, never, Scope.Scope>
  /** Creates a webhook endpoint for each integrator of a database with that schema, at these addresses in turn. */
  readonly addEndpoints: (...args: Parameters<typeof addEndpoints>) => Effect.Effect<unknown>
  /** Absent where endpoints do not consume the event log. */
  readonly log: EventLog | undefined
}

export interface EventLog {
  /** Stores events that are to be delivered. */
  readonly store: typeof storeEvents
  /** SQL whose rows show that not all are delivered. */
  readonly undelivered: string
}

/** This checkout. */
export const own: Checkout = {
  name: "card-rewards",
  root: ownRoot,
  population,
  eventQueue: (url) => Effect.succeed(eventQueue(url)),
  addEndpoints,
  log: { store: storeEvents, undelivered }
}

/** The checkouts that the run compares with this one. */
export class Checkouts extends Context.Service<Checkouts, ReadonlyArray<Checkout>>()(
  "@card-rewards/bench/Checkouts"
) {}

/**
 * Opens the checkout of a folder, whose packages must be installed. Its modules run in this process, with its own copy
 * of Effect.
 */
export const open = Effect.fn("Checkout.open")(function*(folder: string) {
  const root = resolve(folder)
  const { database, effect, endpoints, isQueueEmpty, log, seed, spendEvents, SqlClient } = yield* Effect.tryPromise({
    try: () => importModules(root),
    catch: (error) => new InvalidRun({ message: `${folder} is not a checkout with installed packages: ${error}` })
  })
  const theirs = (url: Redacted.Redacted) => effect.Redacted.make(Redacted.value(url))
  const name = `card-rewards at ${basename(root)}`
  const checkout: Checkout = {
    name,
    root,
    population: (options) => {
      const { fill, name } = seed.population(options)
      const prefix = createHash("sha256").update(root).digest("hex").slice(0, 8)
      return {
        name: `${prefix}_${name}`,
        base: {
          name: `${prefix}_schema`,
          fill: (url) => Effect.promise(() => effect.Effect.runPromise(database.migrate(theirs(url))))
        },
        fill: (url) => Effect.promise(() => effect.Effect.runPromise(fill(theirs(url))))
      }
    },
    eventQueue: (url) =>
      Effect.map(
        Effect.acquireRelease(
          Effect.sync(() =>
            effect.ManagedRuntime.make(
              database.layer({ url: theirs(url), poolSize: 1, applicationName: "card-rewards bench" })
            )
          ),
          (runtime) => Effect.promise(() => runtime.dispose())
        ),
        (runtime) => {
          const run = <A, E>(statement: Effect.Effect<A, E, SqlModule.SqlClient.SqlClient>) =>
            Effect.tryPromise({
              try: () => runtime.runPromise(statement),
              catch: (error) => new InvalidRun({ message: `${name}: ${error}` })
            })
          return {
            store: (senders, prefix, count) => run(spendEvents.store(senders, prefix, count)),
            isEmpty: () => run(effect.Effect.flatMap(SqlClient, isQueueEmpty))
          }
        }
      ),
    addEndpoints: (url, integrators, addresses) =>
      Effect.promise(() => effect.Effect.runPromise(endpoints.addEndpoints(theirs(url), integrators, addresses))),
    log: log && {
      undelivered: log.undelivered,
      store: (client, events) =>
        Effect.tryPromise({
          try: () => effect.Effect.runPromise(log.storeEvents(client, events)),
          catch: (error) => new InvalidRun({ message: `${name}: ${error}` })
        })
    }
  }
  return checkout
})

const importModules = async (root: string) => {
  const require = createRequire(join(root, "packages/bench/package.json"))
  const href = (path: string) => pathToFileURL(join(root, path)).href
  const effect: typeof EffectModule = await import(pathToFileURL(require.resolve("effect")).href)
  const sql: typeof SqlModule = await import(pathToFileURL(require.resolve("effect/sql")).href)
  const database: typeof Database = await import(href("packages/core/src/Database.ts"))
  const seed: typeof Seed = await import(href("packages/bench/src/Seed.ts"))
  const spendEvents: typeof SpendEvents = await import(href("packages/bench/src/SpendEvents.ts"))
  const backlog: typeof Backlog = await import(href("packages/bench/src/measures/Backlog.ts"))
  const endpoints: typeof Endpoints = await import(href("packages/bench/src/measures/Endpoints.ts"))
  const { isQueueEmpty } = backlog
  const log = await importLog(href)
  return { database, effect, endpoints, isQueueEmpty, log, seed, spendEvents, SqlClient: sql.SqlClient.SqlClient }
}

const importLog = async (href: (path: string) => string) => {
  const undelivered = href("packages/dev-postgres/src/Undelivered.ts")
  if (!existsSync(new URL(undelivered))) return undefined
  const rows: typeof Undelivered = await import(undelivered)
  const events: typeof StoredEvents = await import(href("packages/bench/src/measures/StoredEvents.ts"))
  return { storeEvents: events.storeEvents, undelivered: rows.undelivered }
}
