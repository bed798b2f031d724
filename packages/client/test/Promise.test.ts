import * as Errors from "@card-rewards/client/Errors"
import { connect, connectSandbox, NotFound, ReplayRunning, verifyWebhook } from "@card-rewards/client/promise"
import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { ProgramDefinition } from "@card-rewards/domain/Program"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { inspect } from "node:util"

/** Groups and operations of the sandbox's API. */
const operations = (): Array<string> => {
  const found: Array<string> = []
  HttpApi.reflect(SandboxApi, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) =>
      found.push(group.topLevel ? endpoint.identifier : `${group.identifier}.${endpoint.identifier}`)
  })
  return found
}

/** The tags of the errors that the API declares. */
const errorTags = (): Array<string> =>
  Object.values(OpenApi.fromApi(SandboxApi).components.schemas).flatMap((schema) => {
    const tag = "properties" in schema && Object(schema.properties)["_tag"]
    return tag === undefined || tag === false ? [] : tag.enum ?? [tag.const]
  })

const answering = (status: number, body: object): typeof globalThis.fetch => () =>
  Promise.resolve(new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } }))

const options = { baseUrl: "http://service.test", apiKey: "key" }

/** The error with which a promise was rejected. */
const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(() => undefined, (error: unknown) => error)

describe("the promise client", () => {
  it("has every operation of the definition", () => {
    const client = connectSandbox(options)
    const derived = Object.entries(client).flatMap(([name, member]) =>
      typeof member === "function" ? [name] : Object.keys(Object(member)).map((operation) => `${name}.${operation}`)
    )
    assert.sameMembers(derived, operations())
    assert.isAbove(derived.length, 25)
  })

  it("in production has none of the sandbox", () => {
    assert.notProperty(connect(options), "sandbox")
  })

  it("rejects with the error's own class and fields", async () => {
    const body = { _tag: "NotFound", message: "none", resource: "user", id: "ann" }
    const client = connect({ ...options, fetch: answering(404, body) })
    const error = await rejection(client.users.get({ params: { userId: "ann" } }))
    assert.instanceOf(error, NotFound)
    assert.deepInclude(error, { resource: "user", id: "ann" })
  })

  it("names the replay that runs in the error of the second one", async () => {
    const body = { _tag: "ReplayRunning", message: "one runs", replayId: "rpl_7" }
    const client = connect({ ...options, fetch: answering(422, body) })
    const replay = client.webhookEndpoints.startReplay({ params: { id: "main" }, payload: { from: 0 } })
    const error = await rejection(replay)
    assert.instanceOf(error, ReplayRunning)
    assert.deepInclude(error, { replayId: "rpl_7" })
  })

  it("rejects what does not fit before it is sent", async () => {
    const sent: Array<unknown> = []
    const fetch: typeof globalThis.fetch = (url) => Promise.reject(sent.push(url))
    const error = await rejection(connect({ ...options, fetch }).users.get({ params: { userId: "" } }))
    assert.include(error, { _tag: "SchemaError" })
    const { users: { get } } = connect({ ...options, fetch })
    // as without types
    assert.include(await rejection(Reflect.apply(get, undefined, [])), { _tag: "SchemaError" })
    assert.deepStrictEqual(sent, [])
  })

  it("rejects a program with a misspelt key, which would publish a version without it", async () => {
    const sent: Array<unknown> = []
    const fetch: typeof globalThis.fetch = (url) => Promise.reject(sent.push(url))
    const { programs: { publish, simulate } } = connect({ ...options, fetch })
    const effectiveFrom = "2026-12-01T00:00:00.000Z"
    const plain = Schema.decodeUnknownSync(ProgramDefinition)({ ...plainProgram, effectiveFrom })
    const definition = { ...plain, eligibilty: { countries: ["DE"] } }
    const params = { programId: "base", version: 1 }
    const simulation = { definition, from: plain.effectiveFrom - 1, to: plain.effectiveFrom }
    for (const [call, payload] of [[publish, definition], [simulate, simulation]] as const) {
      // as without types
      const error = await rejection(Reflect.apply(call, undefined, [{ params, payload }]))
      assert.include(error, { _tag: "SchemaError" })
      assert.include(String(error), "eligibilty")
    }
    assert.deepStrictEqual(sent, [])
  })

  it("refuses a key that no header can have, without printing it", async () => {
    for (const apiKey of ["service_sk_hidden\n", "service_sk hidden", "service_sk_hiddén", ""]) {
      const client = connect({ baseUrl: "http://127.0.0.1:9", apiKey })
      const error = await rejection(client.users.get({ params: { userId: "ann" } }))
      assert.include(error, { _tag: "HttpClientError" })
      const printed = inspect(error, { depth: 20 })
      assert.include(printed, "apiKey must be visible ASCII characters")
      assert.notInclude(printed, "hidd")
    }
  })

  it("ends a call early when its signal says so", async () => {
    const controller = new AbortController()
    const reason = new Error("no longer needed")
    const fetch: typeof globalThis.fetch = (_, init) =>
      new Promise((_resolve, reject) => {
        init?.signal?.addEventListener("abort", () => reject(new Error("aborted")))
        controller.abort(reason)
      })
    const client = connect({ ...options, fetch })
    const call = client.users.get({ params: { userId: "ann" } }, { signal: controller.signal })
    assert.strictEqual(await rejection(call), reason)
    assert.strictEqual(await rejection(client.vault.get(undefined, { signal: controller.signal })), reason)
  })

  it("verifies webhooks", async () => {
    const error = await rejection(verifyWebhook({ body: "{}", headers: {}, secrets: [] }))
    assert.instanceOf(error, Errors.WebhookUnreadable)
  })
})

it("every declared error can be imported", () => {
  const tags = errorTags()
  assert.isAbove(tags.length, 20)
  assert.includeMembers(Object.keys(Errors), tags)
})
