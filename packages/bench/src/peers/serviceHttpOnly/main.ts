/**
 * The service's own HTTP: API keys, rate limits, decoding, routing, encoding. Spend events are not stored and the key
 * is cached, so that requests do not reach the database.
 */
import * as Configuration from "@card-rewards/api/Configuration"
import * as Http from "@card-rewards/api/Http"
import * as Telemetry from "@card-rewards/api/Http/Telemetry"
import { KeyChecks } from "@card-rewards/api/Pipeline/KeyChecks"
import * as Server from "@card-rewards/api/Server"
import * as Services from "@card-rewards/api/Services"
import * as Process from "@card-rewards/core/Process"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { printId } from "@card-rewards/domain/SpendEvent"
import { Context, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"

const spendEvents = SpendEvents.of({
  submit: (event) => Effect.succeed({ id: printId(event), duplicate: false })
})

const serve = Effect.gen(function*() {
  const config = yield* Configuration.load
  const database = { url: config.databaseUrl, poolSize: 1, applicationName: "card-rewards bench" }
  const services = yield* Layer.build(Services.layer({ ...config, database }))
  const answer = yield* Effect.provideContext(
    Http.make(config.environment),
    Context.add(services, SpendEvents, spendEvents)
  )
  const server = yield* Layer.build(Server.layer({ ...config, ...Context.get(services, KeyChecks) }))
  yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server), Effect.provide(Telemetry.sampling))
  return yield* Effect.never
}).pipe(Effect.scoped)

Process.run(serve, { name: "api that stores nothing", terminal: false })
