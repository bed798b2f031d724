import { Cells } from "@card-rewards/api/Cells"
import * as Http from "@card-rewards/api/Http"
import type { Limits } from "@card-rewards/api/Pipeline/RateLimit"
import * as Server from "@card-rewards/api/Server"
import * as Services from "@card-rewards/api/Services"
import type { VaultId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer, type Redacted } from "effect"
import { HttpServer } from "effect/http"
import { FreshDatabase } from "./FreshDatabase.ts"
import { secretsKeys } from "./Secrets.ts"

export interface ApiOptions extends Pick<Services.Options, "simulationLimits"> {
  /** The sandbox when left out. */
  readonly environment?: VaultId
  /** All off when left out. */
  readonly limits?: Partial<Limits>
  /** Whether webhook endpoints may be local; in the sandbox they may when left out. */
  readonly allowPrivateNetwork?: boolean
  /** How the database is reached; directly when left out. */
  readonly through?: (url: Redacted.Redacted) => Redacted.Redacted
}

/** The api in this process, over real HTTP on a port of its own, with its database role of production. */
export class ApiServer extends Context.Service<ApiServer, {
  readonly baseUrl: string
  readonly port: number
}>()("@card-rewards/testing/ApiServer") {
  static readonly layer = ({ environment = "sandbox", limits, through, ...options }: ApiOptions = {}) =>
    Layer.effect(
      ApiServer,
      Effect.gen(function*() {
        const { url } = yield* FreshDatabase
        const database = { url: through?.(url) ?? url, poolSize: 4, applicationName: "test api", role: "api" } as const
        const services = yield* Services.make(database, {
          environment,
          secretsKeys,
          allowPrivateNetwork: environment === "sandbox",
          ...options
        })
        const { answer, integratorOf } = yield* Http.make({
          environment,
          limits: { ingest: "off", read: "off", manage: "off", auth: "off", ...limits }
        }).pipe(Effect.provideService(Cells, Cells.only(services)))
        const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0, integratorOf }))
        yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server))
        const { address } = Context.get(server, HttpServer.HttpServer)
        const port = "port" in address ? address.port : 0
        return ApiServer.of({ baseUrl: `http://127.0.0.1:${port}`, port })
      })
    )
}
