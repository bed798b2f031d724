import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { createHash } from "node:crypto"
import { Points } from "./faultPoints/Points.ts"
import * as Story from "./faultPoints/Story.ts"
import * as World from "./faultPoints/World.ts"

/** A secret without its prefix, and its bytes in hexadecimal and base64: each whole, and each half. */
const spellings = (secret: string): ReadonlyArray<string> => {
  const digits = secret.replace(/^service_(sk_sandbox|whsec)_/, "")
  const bytes = [Buffer.from(secret), Buffer.from(digits), Buffer.from(digits, "hex")]
  return [digits, ...bytes.flatMap((one) => [one.toString("hex"), one.toString("base64").replaceAll("=", "")])]
    .flatMap((spelling) => [spelling, spelling.slice(0, spelling.length / 2), spelling.slice(spelling.length / 2)])
}

it("no column of any table holds an API key or a signing secret in a readable form", () =>
  Effect.scoped(Effect.gen(function*() {
    const world = yield* World.make(new Points())
    const shown: Array<string> = []
    const send: World.Send = (...request) =>
      Effect.tap(world.send(...request), ({ body: { secret } }) =>
        Effect.sync(() => typeof secret === "string" && shown.push(secret)))
    yield* Story.play({ ...world, send })
    // the story deletes its endpoint with the secrets; the stored ones are those of a second endpoint
    const present = shown.find((secret) => secret.includes("_sk_"))
    yield* send("POST", "/v1/webhook-endpoints", { id: "again", url: world.receiver.url }, present)

    const columns = yield* world.sql<{ name: string; column: string; type: string }>`
      SELECT c.table_name AS name, column_name AS column, udt_name AS type FROM information_schema.columns c
      JOIN information_schema.tables t ON t.table_name = c.table_name AND t.table_schema = c.table_schema
      WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'`
    const stored = (yield* Effect.forEach(columns, ({ column, name, type }) => {
      // bytes are searched as hexadecimal digits and as characters, in which text would be readable
      const bytes = `encode(${column}, 'hex') || ' ' || encode(${column}, 'escape')`
      const text = type === "bytea" ? bytes : `${column}::text`
      return world.sql.unsafe<{ text: string | null }>(`SELECT ${text} AS text FROM ${name}`)
    })).flat().map(({ text }) => text ?? "").join("\n")

    const apiKey = Redacted.value(world.apiKey)
    const hash = createHash("sha256").update(apiKey).digest("hex")
    for (const known of ["rw:acme:ann", "webhook.ping", hash]) assert.include(stored, known, "not stored")
    const secrets = [apiKey, ...shown]
    assert.deepStrictEqual(
      secrets.map((secret) => secret.slice(0, -64)).toSorted(),
      ["service_sk_sandbox_", "service_sk_sandbox_", "service_whsec_", "service_whsec_", "service_whsec_"]
    )
    for (const secret of secrets) {
      for (const spelling of spellings(secret)) {
        assert.isFalse(stored.includes(spelling), `a ${secret.slice(0, -64)} is stored`)
      }
    }
  })).pipe(Effect.runPromise))
