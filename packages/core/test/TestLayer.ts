import { makeMigrated } from "@card-rewards/dev-postgres/TestDatabase"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect, Layer, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as Database from "../src/Database.ts"
import { Environment } from "../src/Environment.ts"
import { Integrators } from "../src/Integrators.ts"
import * as Secrets from "../src/Secrets.ts"
import { slotOf } from "../src/Slots.ts"

const database = Effect.fnUntraced(function*(poolSize: number) {
  const url = yield* makeMigrated(Database.migrate)
  return yield* Layer.build(Database.layer({ url, poolSize, applicationName: "card-rewards test" }))
})

/** A migrated database that exists as long as the layer. Its pool uses real time. */
export const testDatabase = Layer.effectContext(TestClock.withLive(database(10)))

/** A key for tests: 32 times the same byte. */
export const secretsKey = (byte: number): Secrets.SecretsKey => Redacted.make(new Uint8Array(32).fill(byte))

const over = <A, E>(connections: Layer.Layer<A | SqlClient.SqlClient, E>) =>
  Integrators.layer.pipe(
    Layer.provideMerge(Environment.layer("sandbox")),
    Layer.provideMerge(connections),
    Layer.provideMerge(Secrets.Secrets.layer({ keys: [secretsKey(1)] }))
  )

/** {@link testDatabase}, and the services that nearly every test of core needs: sandbox, integrators, secrets. */
export const testLayer = over(testDatabase)

/** The same with one connection, for tests of its session. */
export const oneSessionLayer = over(Layer.effectContext(TestClock.withLive(database(1))))

/** {@link oneSessionLayer} in real time, for tests of the session's plans. */
export const liveSessionLayer = over(Layer.effectContext(database(1)))

/** The same in real time, for tests of concurrent operations. */
export const liveLayer = over(Layer.effectContext(database(10)))

/** 2026-11-01T12:00:00.000Z: the time of every test until it moves the clock. */
export const startMillis = 1_793_534_400_000

let made = 0
const lastSlots: Array<number> = []

/** A new id, whose slot is none of those of the 64 ids before it: tests mark slots of single integrators. */
export const newIntegratorId = (prefix: string): IntegratorId => {
  const integratorId = IntegratorId.make(`${prefix}-${++made}`)
  const slot = slotOf(integratorId)
  if (lastSlots.includes(slot)) return newIntegratorId(prefix)
  lastSlots.push(slot)
  if (lastSlots.length > 64) lastSlots.shift()
  return integratorId
}

/** A fresh integrator; the clock is set to {@link startMillis}. */
export const newIntegrator = Effect.gen(function*() {
  yield* TestClock.setTime(startMillis)
  const integrators = yield* Integrators
  const integratorId = newIntegratorId("integrator")
  yield* integrators.create(integratorId)
  return integratorId
})

/** The number of times that each concurrent pair is run. */
export const pairRuns = 20
