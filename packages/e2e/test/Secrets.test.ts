import { Cluster } from "@card-rewards/e2e/Cluster"
import { customer, newLedger } from "@card-rewards/e2e/Load"
import { healthy, query } from "@card-rewards/e2e/Setting"
import { expect, seedIntegrator, listen, provision } from "@card-rewards/e2e/World"
import type { Answer } from "@card-rewards/testing/HttpExchange"
import { until } from "@card-rewards/testing/Polling"
import { admin, freePort, start, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import { createEndpoint } from "@card-rewards/testing/Requests"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { readFileSync } from "node:fs"

const refusedKey = `service_sk_sandbox_${"5ec2e7".repeat(10)}beef`

/** PostgreSQL logs every statement with its parameters. */
const verbose = { log_statement: "all", log_parameter_max_length: "-1", log_parameter_max_length_on_error: "-1" }

layer(
  Layer.merge(Cluster.layer(verbose), WebhookReceiver.layer),
  { excludeTestServices: true, timeout: "60 seconds" }
)("secrets", (it) => {
  it.effect("are in no log, answer, event, error, table or command line, at any log level, with failures", () =>
    Effect.gen(function*() {
      const cluster = yield* Cluster
      const receiver = yield* WebhookReceiver
      const port = yield* freePort
      const secretsKey = Buffer.from("a key that must never be printed").toString("base64")
      const env = variables(cluster.url, { PORT: `${port}`, LOG_LEVEL: "trace", SECRETS_KEY: secretsKey })
      const apiKey = yield* provision(env)
      const api = yield* start("api", env)
      const worker = yield* start("worker", env)
      yield* healthy(port, api)
      const answers: Array<string> = []
      const onAnswer = (answer: Answer) => void answers.push(JSON.stringify(answer.headers) + answer.text)
      const options = { baseUrl: () => `http://127.0.0.1:${port}`, apiKey }
      const client = RawClient.make({ ...options, onAnswer })
      // its answers contain new secrets, which are shown once: they are not searched
      const creating = RawClient.make(options)
      const ledger = newLedger(yield* seedIntegrator(client))
      const signing = [yield* listen(creating, receiver.url)]
      const rotated = yield* expect(200, creating.sendWithRetries("POST", "/v1/webhook-endpoints/main/rotate-secret"))
      signing.push(JSON.parse(rotated.text).secret)
      const created = yield* expect(201, creating.sendWithRetries("POST", "/v1/api-keys", { name: "second" }))
      const secondKey: string = JSON.parse(created.text).secret

      const story = Effect.gen(function*() {
        yield* until("acknowledged", Effect.sync(() => ledger.acknowledged), (n) => n > 60, 60)
        for (const key of [refusedKey, `${apiKey}0`, "nonsense"]) {
          const mistaken = RawClient.make({ ...options, apiKey: key, onAnswer })
          yield* expect([401, 429, 503], mistaken.send("GET", "/v1/programs"))
        }
        yield* makeMistakes(client, receiver.url, secondKey)
        receiver.answer(500)
        yield* cluster.killPostmaster
        const before = ledger.acknowledged
        yield* until("acknowledged", Effect.sync(() => ledger.acknowledged - before), (n) => n > 30, 60)
        receiver.answer(200)
        ledger.closed = true
      })
      yield* Effect.all(
        [story, ...[1, 2, 3, 4].map((seed) => customer(client, ledger, seed))],
        { concurrency: "unbounded", discard: true }
      )
      const audit = yield* admin(env, "audit")
      const commandLines = [api, worker].map(({ pid }) => readFileSync(`/proc/${pid}/cmdline`, "utf8"))
      for (const child of [api, worker]) {
        yield* child.send("SIGTERM")
        yield* child.exit
      }
      const outputs: Readonly<Record<string, string>> = {
        "the api's log": api.output(),
        "the worker's log": worker.output(),
        "PostgreSQL's log": cluster.log(),
        "an answer": answers.join("\n"),
        "a webhook": receiver.received.map(({ body, headers }) => JSON.stringify(headers) + body).join("\n"),
        "a table": (yield* allRows(cluster.url)).join("\n"),
        "a command line": commandLines.join("\n"),
        "the audit": audit
      }
      const password = new URL(cluster.url).password
      const secrets = {
        apiKey,
        secondKey,
        refusedKey,
        first: signing[0] ?? "",
        second: signing[1] ?? "",
        password,
        secretsKey
      }
      assertAbsent(secrets, outputs)
    }).pipe(Effect.scoped), { timeout: 120_000 })
})

/** Repeated creations, reads of keys and endpoints, and requests with a key in the wrong place. */
const makeMistakes = Effect.fnUntraced(function*(
  client: RawClient.RawClient,
  receiverUrl: string,
  misplacedKey: string
) {
  yield* expect(201, client.sendWithRetries("POST", "/v1/api-keys", { name: "second" }))
  yield* expect([201, 409], client.sendWithRetries(...createEndpoint("main", receiverUrl)))
  for (const path of ["api-keys", "webhook-endpoints", "webhook-endpoints/main", "events?limit=100"]) {
    yield* expect(200, client.sendWithRetries("GET", `/v1/${path}`))
  }
  const misplaced = { kind: "clearing", [misplacedKey]: misplacedKey }
  yield* expect(400, client.sendWithRetries("POST", "/v1/spend-events", misplaced))
  yield* expect(400, client.sendWithRetries("GET", `/v1/events?after=${misplacedKey}`))
})

/** Every row of every table, as text. */
const allRows = Effect.fnUntraced(function*(url: string) {
  const tables = yield* query<{ name: string }>(
    url,
    "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
  )
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    query<{ row: string }>(url, `SELECT t::text AS row FROM "${name}" t`))
  return rows.flat().map(({ row }) => row)
})

/** Fails where one of the outputs has one of the secrets, in any of its {@link spellings}. */
const assertAbsent = (secrets: Readonly<Record<string, string>>, outputs: Readonly<Record<string, string>>): void => {
  for (const [output, text] of Object.entries(outputs)) assert.isAbove(text.length, 20, `${output} is empty`)
  for (const [name, secret] of Object.entries(secrets)) {
    assert.isAbove(secret.length, 20, name)
    for (const spelling of spellings(secret)) {
      for (const [output, text] of Object.entries(outputs)) {
        // an answer repeats the caller's own text to that caller only
        if (name === "secondKey" && output === "an answer") continue
        assert.isFalse(text.includes(spelling), `${name} is in ${output}: …${around(text, spelling)}…`)
      }
    }
  }
}

/** The secret itself, the secret without its prefix, and its bytes in hexadecimal and base64. */
const spellings = (secret: string): ReadonlyArray<string> => [
  secret,
  secret.replace(/^service_(sk_sandbox|whsec)_/, ""),
  Buffer.from(secret).toString("hex"),
  Buffer.from(secret).toString("base64")
]

const around = (text: string, found: string): string => {
  const at = text.indexOf(found)
  return text.slice(Math.max(0, at - 200), at) + "[…]" + text.slice(at + found.length, at + found.length + 100)
}
