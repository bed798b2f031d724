import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ApiKey, ApiKeyCreated, ApiKeyCreation, ApiKeyLimit, LastActiveKey } from "../ApiKey.ts"
import { NotFound } from "../Errors.ts"
import { ApiKeyName } from "../Ids.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** The integrator's keys. Several can be active at once, so that a rotation needs no downtime. */
export class ApiKeys extends HttpApiGroup.make("apiKeys").add(
  HttpApiEndpoint.get("list", "/v1/api-keys", {
    success: Schema.Struct({ keys: Schema.Array(ApiKey) }).annotate({ description: "The integrator's keys." })
  }).annotateMerge(OpenApi.annotations({
    summary: "List API keys",
    description: "All keys, including revoked ones, without their secrets."
  })),
  HttpApiEndpoint.post("create", "/v1/api-keys", {
    payload: ApiKeyCreation,
    success: ApiKeyCreated.pipe(HttpApiSchema.status(201)),
    error: ApiKeyLimit
  }).annotateMerge(OpenApi.annotations({
    summary: "Create an API key",
    description: "Up to 20 keys may be active, and 1,000 exist in all. The name is never reused, so the request is " +
      "safe to retry: a repeat is 201 with `duplicate: true` and without `secret`."
  })),
  HttpApiEndpoint.delete("revoke", "/v1/api-keys/:name", {
    params: { name: ApiKeyName },
    success: Schema.Struct({ key: ApiKey }).annotate({ description: "The key, with `revokedAt`." }),
    error: [NotFound, LastActiveKey]
  }).annotateMerge(OpenApi.annotations({
    summary: "Revoke an API key",
    description: "The key stops working within a minute. Revoking a revoked key changes nothing. The last active key " +
      "cannot be revoked."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The integrator's keys; several are active at once, so rotation needs no downtime.") {}
