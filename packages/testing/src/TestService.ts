import { CardRewardsSandbox, type SandboxOperations } from "@card-rewards/client/CardRewards"
import { Integrators } from "@card-rewards/core/Integrators"
import { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Context, Duration, Effect, Layer, type Redacted, Schema } from "effect"
import { FetchHttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { type ApiOptions, ApiServer } from "./ApiServer.ts"
import { FreshDatabase, operators } from "./FreshDatabase.ts"
import { untilTrue } from "./Polling.ts"
import { WebhookReceiver } from "./WebhookReceiver.ts"
import * as Worker from "./Worker.ts"
import { undelivered } from "@card-rewards/dev-postgres/Undelivered"

/**
 * The sandbox in this process, as the integrator `acme` uses it: the api over a database of its own, the worker, a
 * webhook receiver, and the typed client.
 */
export class TestService extends Context.Service<TestService, {
  readonly baseUrl: string
  readonly integratorId: IntegratorId
  readonly apiKey: Redacted.Redacted
  /** Every operation, as `acme`. */
  readonly api: SandboxOperations
  /**
   * Publishes program `cashback` in its next version and moves the clock to where it takes effect: 1 % in USDC, held
   * for 14 days, nothing else; `changes` are as on the wire.
   */
  readonly publish: (changes?: Readonly<Record<string, unknown>>) => Effect.Effect<void>
  /** Moves `acme`'s clock forward. Rewards due by then are claimable at once. */
  readonly pass: (duration: Duration.Input) => Effect.Effect<void>
  /** Waits until every spend event is processed and every delivery is delivered or cancelled, for at most 60 s. */
  readonly idle: Effect.Effect<void>
}>()("@card-rewards/testing/TestService") {
  /**
   * With it come its parts: `WebhookReceiver`, `ApiServer`, `FreshDatabase`, core's `Integrators` and a `SqlClient`.
   * Everything runs in real time, so the test must too: `layer(TestService.layer(), { excludeTestServices: true })`.
   */
  static readonly layer = (options: Omit<ApiOptions, "environment"> & Worker.WorkerOptions = {}) =>
    Layer.effect(TestService, make).pipe(
      Layer.provideMerge(
        Layer.mergeAll(ApiServer.layer(options), Worker.layer(options), WebhookReceiver.layer, operators("sandbox"))
      ),
      Layer.provideMerge(FreshDatabase.layer)
    )
}

const decodeDefinition = Schema.decodeUnknownEffect(ProgramDefinition)

/** Longer than the five minutes by which a publication must precede the version. */
const leadMillis = 600_000

const make = Effect.gen(function*() {
  const { baseUrl } = yield* ApiServer
  const integrators = yield* Integrators
  const sql = yield* SqlClient.SqlClient
  const integratorId = IntegratorId.make("acme")
  const { apiKey } = yield* integrators.create(integratorId)
  const client = CardRewardsSandbox.layer({ baseUrl, apiKey }).pipe(Layer.provide(FetchHttpClient.layer))
  const api = Context.get(yield* Layer.build(client), CardRewardsSandbox)
  const isIdle = Effect.gen(function*() {
    const { stored } = yield* api.spendEvents.backlog()
    const pending = yield* sql`${sql.literal(undelivered)} LIMIT 1`
    return stored === 0 && pending.length === 0
  })
  const pass = Effect.fn("TestService.pass")(function*(duration: Duration.Input) {
    const { now } = yield* api.sandbox.clock()
    yield* api.sandbox.moveClock({ payload: { now: instant(now + Duration.toMillis(duration)) } })
  }, Effect.orDie)
  let version = 0
  const publish = Effect.fn("TestService.publish")(function*(changes?: Readonly<Record<string, unknown>>) {
    const { now } = yield* api.sandbox.clock()
    const payload = yield* decodeDefinition({
      ...plainProgram,
      holdingPeriodDays: 14,
      effectiveFrom: printTimestamp(now + leadMillis),
      ...changes
    })
    yield* api.programs.publish({ params: { programId: ProgramId.make("cashback"), version: ++version }, payload })
    yield* pass(leadMillis)
  }, Effect.orDie)
  return TestService.of({
    baseUrl,
    integratorId,
    apiKey,
    api,
    publish,
    pass,
    idle: untilTrue(isIdle).pipe(Effect.asVoid, Effect.orDie)
  })
})
