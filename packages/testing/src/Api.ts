import * as Http from "@card-rewards/api/Http"
import type { Limits } from "@card-rewards/api/Pipeline/RateLimit"
import * as Server from "@card-rewards/api/Server"
import * as Services from "@card-rewards/api/Services"
import type { VaultId } from "@card-rewards/domain/Ids"
import { Context, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import { FreshDatabase } from "./FreshDatabase.ts"
import { secretsKeys } from "./Secrets.ts"

export interface ApiOptions {
  /** The sandbox when left out. */
  readonly environment?: VaultId
  /** All off when left out. */
  readonly limits?: Partial<Limits>
}

/** The api in this process, over real HTTP on a port of its own; webhook endpoints may be local. */
export class Api extends Context.Service<Api, { readonly baseUrl: string }>()("@card-rewards/testing/Api") {
  static readonly layer = ({ environment = "sandbox", limits }: ApiOptions = {}) =>
    Layer.effect(
      Api,
      Effect.gen(function*() {
        const { url } = yield* FreshDatabase
        const services = yield* Layer.build(Services.layer({
          database: { url, poolSize: 4, applicationName: "test api" },
          environment,
          secretsKeys,
          allowPrivateNetwork: environment === "sandbox",
          limits: { ingest: "off", read: "off", manage: "off", auth: "off", ...limits }
        }))
        const answer = yield* Effect.provideContext(Http.make(environment), services)
        const server = yield* Layer.build(Server.layer({ host: "127.0.0.1", port: 0 }))
        yield* HttpServer.serveEffect(answer).pipe(Effect.provideContext(server))
        const { address } = Context.get(server, HttpServer.HttpServer)
        return Api.of({ baseUrl: `http://127.0.0.1:${"port" in address ? address.port : 0}` })
      })
    )
}
