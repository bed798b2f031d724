import { Cluster } from "@card-rewards/e2e/Cluster"
import { customer, type Ledger, newLedger } from "@card-rewards/e2e/Load"
import { healthy, query } from "@card-rewards/e2e/Setting"
import { expect, seedIntegrator, listen, provision } from "@card-rewards/e2e/World"
import type { Answer } from "@card-rewards/testing/HttpExchange"
import { until } from "@card-rewards/testing/Polling"
import { admin, freePort, start, type Variables, variables } from "@card-rewards/testing/Processes"
import * as RawClient from "@card-rewards/testing/RawClient"
import { createEndpoint } from "@card-rewards/testing/Requests"
import type { Running } from "@card-rewards/testing/TestProcess"
import { WebhookReceiver } from "@card-rewards/testing/WebhookReceiver"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { readFileSync } from "node:fs"

const refusedKey = `service_sk_sandbox_${"5ec2e7".repeat(10)}beef`

/** PostgreSQL logs every statement with its parameters. */
const talkative = { log_statement: "all", log_parameter_max_length: "-1", log_parameter_max_length_on_error: "-1" }

layer(
  Layer.merge(Cluster.layer(talkative), WebhookReceiver.layer),
  { excludeTestServices: true }
)("secrets", (it) => {
  it.effect("are in no log, answer, event, error, table or command line, at any log level, with failures", () =>
    Effect.gen(function*() {
      const cluster = yield* Cluster
      const port = yield* freePort
      const secretsKey = Buffer.from("a key that must never be printed").toString("base64")
      const env = variables(cluster.url, { PORT: `${port}`, LOG_LEVEL: "trace", SECRETS_KEY: secretsKey })
      const apiKey = yield* provision(env)
      const processes = { api: yield* start("api", env), worker: yield* start("worker", env) }
      yield* healthy(port, processes.api)
      const answers: Array<string> = []
      const clients = clientsOf(`http://127.0.0.1:${port}`, apiKey, answers)
      const ledger = newLedger(yield* seedIntegrator(clients.searched))
      const created = yield* createSecrets(clients)
      yield* useAndFail(clients, ledger, created.secondKey)

      const outputs = { ...(yield* outputsOf(env, processes)), "an answer": answers.join("\n") }
      const password = new URL(cluster.url).password
      assertNoneContains(outputs, { ...created, apiKey, refusedKey, password, secretsKey })
    }).pipe(Effect.scoped))
})

interface Clients {
  readonly apiKey: string
  /** Its answers are searched for secrets. */
  readonly searched: RawClient.RawClient
  /** Is shown secrets once; its answers are not searched. */
  readonly creating: RawClient.RawClient
  readonly withKey: (apiKey: string) => RawClient.RawClient
}

const clientsOf = (baseUrl: string, apiKey: string, answers: Array<string>): Clients => {
  const options = { baseUrl: () => baseUrl, apiKey }
  const onAnswer = (answer: Answer) => void answers.push(JSON.stringify(answer.headers) + answer.text)
  const withKey = (apiKey: string) => RawClient.make({ ...options, apiKey, onAnswer })
  return { apiKey, searched: withKey(apiKey), creating: RawClient.make(options), withKey }
}

/** An endpoint's signing secret, the one that replaces it, and another API key. */
const createSecrets = Effect.fnUntraced(function*({ creating }: Clients) {
  const { url } = yield* WebhookReceiver
  const firstSigning = yield* listen(creating, url)
  const rotated = yield* expect(200, creating.sendWithRetries("POST", "/v1/webhook-endpoints/main/rotate-secret"))
  const key = yield* expect(201, creating.sendWithRetries("POST", "/v1/api-keys", { name: "second" }))
  const secondSigning: string = JSON.parse(rotated.text).secret
  const secondKey: string = JSON.parse(key.text).secret
  return { firstSigning, secondSigning, secondKey }
})

/** Runs customers while callers make mistakes, the receiver fails and PostgreSQL is killed. */
const useAndFail = Effect.fnUntraced(function*(clients: Clients, ledger: Ledger, secondKey: string) {
  const cluster = yield* Cluster
  const receiver = yield* WebhookReceiver
  const story = Effect.gen(function*() {
    yield* until("acknowledged", Effect.sync(() => ledger.acknowledged), (n) => n > 60, 60)
    yield* makeMistakes(clients, secondKey)
    receiver.answer(500)
    yield* cluster.killPostmaster
    const before = ledger.acknowledged
    yield* until("acknowledged", Effect.sync(() => ledger.acknowledged - before), (n) => n > 30, 60)
    receiver.answer(200)
    ledger.closed = true
  })
  yield* Effect.all(
    [story, ...[1, 2, 3, 4].map((seed) => customer(clients.searched, ledger, seed))],
    { concurrency: "unbounded", discard: true }
  )
})

/** Requests with wrong keys, repeated creations, and a key in the wrong place. */
const makeMistakes = Effect.fnUntraced(function*({ apiKey, searched, withKey }: Clients, secondKey: string) {
  const receiver = yield* WebhookReceiver
  for (const key of [refusedKey, `${apiKey}0`, "nonsense"]) {
    yield* expect([401, 429, 503], withKey(key).send("GET", "/v1/programs"))
  }
  yield* expect(201, searched.sendWithRetries("POST", "/v1/api-keys", { name: "second" }))
  yield* expect([201, 409], searched.sendWithRetries(...createEndpoint("main", receiver.url)))
  for (const path of ["api-keys", "webhook-endpoints", "webhook-endpoints/main", "events?limit=100"]) {
    yield* expect(200, searched.sendWithRetries("GET", `/v1/${path}`))
  }
  const misplaced = { kind: "clearing", [secondKey]: secondKey }
  yield* expect(400, searched.sendWithRetries("POST", "/v1/spend-events", misplaced))
  yield* expect(400, searched.sendWithRetries("GET", `/v1/events?after=${secondKey}`))
})

/** Ends the processes. Returns all that they and PostgreSQL printed, sent and stored, by its kind. */
const outputsOf = Effect.fnUntraced(function*(env: Variables, { api, worker }: Record<"api" | "worker", Running>) {
  const cluster = yield* Cluster
  const receiver = yield* WebhookReceiver
  const audit = yield* admin(env, "audit")
  const commandLines = [api, worker].map(({ pid }) => readFileSync(`/proc/${pid}/cmdline`, "utf8"))
  for (const child of [api, worker]) {
    yield* child.send("SIGTERM")
    yield* child.exit
  }
  const tables = yield* query<{ name: string }>(
    cluster.url,
    "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
  )
  const rows = yield* Effect.forEach(tables, ({ name }) =>
    query<{ row: string }>(cluster.url, `SELECT t::text AS row FROM "${name}" t`))
  return {
    "the api's log": api.output(),
    "the worker's log": worker.output(),
    "PostgreSQL's log": cluster.log(),
    "a webhook": receiver.received.map(({ body, headers }) => JSON.stringify(headers) + body).join("\n"),
    "a table": rows.flat().map(({ row }) => row).join("\n"),
    "a command line": commandLines.join("\n"),
    "the audit": audit
  }
})

const assertNoneContains = (
  outputs: Readonly<Record<string, string>>,
  secrets: Readonly<Record<string, string>>
): void => {
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
