import { Schema } from "effect"
import { ApiKeyName } from "./Ids.ts"
import { Timestamp } from "./Time.ts"

/** Active keys of an integrator at most, and keys in all, including revoked ones (contract, section 8). */
export const maxActiveKeys = 20
export const maxKeys = 1_000

/** The form of an API key's secret (contract, section 2.7). */
export const apiKeyForm = /^service_sk_(sandbox|live)_[0-9a-f]{64}$/

/** Whether a text contains the beginning of an API key or of a signing secret. */
export const hasSecret = (text: string): boolean => /service_(?:sk|whsec)_/.test(text)

/** Replaces what follows the beginning of an API key or of a signing secret, up to a space or a quotation mark. */
export const maskSecrets = (text: string): string =>
  text.replace(/(service_(?:sk_(?:sandbox_|live_)?|whsec_))[^\s"]+/g, "$1…")

/** One line without secrets: line breaks and control characters become spaces, and {@link maskSecrets}. */
export const oneLine = (text: string): string => maskSecrets(text.replace(/[\s\p{Cc}]+/gu, " ").trim())

/** An API key without its secret (contract, section 2.7). */
export const ApiKey = Schema.Struct({
  name: ApiKeyName,
  last4: Schema.String,
  createdAt: Timestamp,
  revokedAt: Schema.optionalKey(Timestamp),
  lastUsedAt: Schema.optionalKey(Timestamp)
}).annotate({
  identifier: "ApiKey",
  expected: "an object",
  description: "An API key without its secret. `lastUsedAt` is exact to the minute; `revokedAt` is present once it " +
    "is revoked."
})
export type ApiKey = typeof ApiKey.Type

/** Request body of `POST /v1/api-keys`. */
export const ApiKeyCreation = Schema.Struct({ name: ApiKeyName }).annotate({
  identifier: "ApiKeyCreation",
  expected: "an object",
  description: "The name of a new key: unique among the integrator's keys, never reused."
})

/** Response of a creation. It has the `secret` only the first time. */
export const ApiKeyCreated = Schema.Struct({
  key: ApiKey,
  secret: Schema.optionalKey(Schema.String),
  duplicate: Schema.Boolean
}).annotate({
  identifier: "ApiKeyCreated",
  expected: "an object",
  description: "The key, and its secret the first time only."
})
export type ApiKeyCreated = typeof ApiKeyCreated.Type

/** 422: there are 20 active keys, or 1,000 in all; `limit` is the limit that was reached. */
export class ApiKeyLimit extends Schema.TaggedError<ApiKeyLimit>()("ApiKeyLimit", {
  message: Schema.String,
  limit: Schema.Int
}, { httpApiStatus: 422 }) {}

/** 422: the last active key cannot be revoked. */
export class LastActiveKey extends Schema.TaggedError<LastActiveKey>()("LastActiveKey", {
  message: Schema.String,
  name: Schema.String
}, { httpApiStatus: 422 }) {}
