import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { ApiKey, ApiKeyCreated, ApiKeyCreation, ApiKeyLimit, LastActiveKey } from "../ApiKey.ts"
import { NotFound } from "../Errors.ts"
import { ApiKeyName } from "../Ids.ts"
import { Authorization, RequestShape } from "./Authorization.ts"

/** The integrator's keys; several are active at once, so rotation needs no downtime. */
export class ApiKeys extends HttpApiGroup.make("apiKeys").add(
  HttpApiEndpoint.get("list", "/v1/api-keys", {
    success: Schema.Struct({ keys: Schema.Array(ApiKey) })
  }),
  HttpApiEndpoint.post("create", "/v1/api-keys", {
    payload: ApiKeyCreation,
    success: ApiKeyCreated.pipe(HttpApiSchema.status(201)),
    error: ApiKeyLimit
  }),
  HttpApiEndpoint.delete("revoke", "/v1/api-keys/:name", {
    params: { name: ApiKeyName },
    success: Schema.Struct({ key: ApiKey }),
    error: [NotFound, LastActiveKey]
  })
).middleware(RequestShape).middleware(Authorization) {}
