/**
 * The service's own HTTP: API keys, rate limits, decoding, routing, encoding. Spend events are not stored and the key
 * is cached, so that requests do not reach the database.
 */
import { Cells } from "@card-rewards/api/Cells"
import * as Configuration from "@card-rewards/api/Configuration"
import * as Http from "@card-rewards/api/Http"
import * as Telemetry from "@card-rewards/api/Http/Telemetry"
import * as Server from "@card-rewards/api/Server"
import * as Services from "@card-rewards/api/Services"
import * as Process from "@card-rewards/core/Process"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { printId, type SpendEvent } from "@card-rewards/domain/SpendEvent"
import { Effect, Layer, Result } from "effect"
import { HttpServer } from "effect/http"

const accepted = (event: SpendEvent) => ({ id: printId(event), duplicate: false })

const spendEvents = SpendEvents.of({
  submit: (event) => Effect.succeed(accepted(event)),
  submitAll: (events) => Effect.succeed(events.map((event) => Result.succeed(accepted(event))))
})

const serve = Effect.gen(function*() {
  const config = yield* Configuration.load
  const [{ url }] = config.cells
  const services = yield* Services.make({ url, poolSize: 1, applicationName: "card-rewards bench" }, config)
  const cells = Cells.only({ ...services, spendEvents })
  const { answer, integratorOf } = yield* Effect.provideService(Http.make(config), Cells, cells)
  const server = yield* Layer.build(Server.layer({ ...config, integratorOf }))
  yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server), Effect.provide(Telemetry.untraced))
  return yield* Effect.never
}).pipe(Effect.scoped)

Process.run(serve, "api that stores nothing")
