import { verifyWebhookAs } from "@card-rewards/client/WebhookSignature"
import { defaultRetryDelays, jitterRange } from "@card-rewards/domain/Delivery"
import { WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Mac, SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { sign } from "./Sign.ts"

const page = readFileSync(new URL("../../../docs/webhooks.md", import.meta.url), "utf8")

/** The code block of the page that begins with this text. */
const block = (info: string): string => {
  const found = [...page.matchAll(/```([^\n]+)\n([\s\S]*?)```/g)].filter(([, head]) => head === info)
  assert.lengthOf(found, 1, info)
  return found[0]?.[2] ?? ""
}

const vectors = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(Schema.Struct({
  name: Schema.String,
  body: Schema.String,
  signature: Schema.String,
  standard: Schema.String,
  signedWith: Schema.NonEmptyArray(WebhookSecret),
  secrets: Schema.Array(Schema.String),
  now: Schema.Int,
  valid: Schema.Boolean
}))))(block("json vectors"))

const macLayer = Mac.layerWebCrypto.pipe(Layer.provide(SecureRandom.layerWebCrypto))

describe("the test vectors", () => {
  it("have some that are valid, and some that are not", () => {
    assert.isAtLeast(vectors.filter(({ valid }) => valid).length, 5)
    assert.isAtLeast(vectors.filter(({ valid }) => !valid).length, 5)
  })

  it.effect.each(vectors)("verifyWebhook: $name", ({ body, now, secrets, signature, valid }) =>
    Effect.gen(function*() {
      yield* TestClock.setTime(now * 1_000)
      const read = verifyWebhookAs(Schema.Struct({ kind: Schema.Literal("webhook.ping") }))
      const exit = yield* Effect.exit(read({ body, headers: { "x-service-signature": signature }, secrets }))
      assert.strictEqual(exit._tag === "Success", valid)
    }))

  it.effect.each(vectors.filter(({ valid }) => valid))("the service signs: $name", (vector) =>
    Effect.gen(function*() {
      const timestampSeconds = Number(/^t=(\d+)/.exec(vector.signature)?.[1])
      const { id } = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ id: Schema.String })))(vector.body)
      const attempt = { eventId: id, body: vector.body, timestampSeconds, attempt: 1 }
      const headers = sign({ secrets: vector.signedWith, ...attempt })
      assert.strictEqual(headers["x-service-signature"], vector.signature)
      assert.strictEqual(headers["webhook-signature"], vector.standard)
    }).pipe(Effect.provide(macLayer)))
})

/** Runs a program that reads the vectors as JSON from stdin and writes a JSON list of booleans. */
const run = (file: string, program: string, command: (path: string) => [string, ...Array<string>]) => {
  const folder = mkdtempSync(join(tmpdir(), "card-rewards-page-"))
  try {
    const path = join(folder, file)
    writeFileSync(path, program)
    const [name, ...args] = command(path)
    return JSON.parse(execFileSync(name, args, { input: JSON.stringify(vectors), encoding: "utf8", cwd: folder }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const isThere = (name: string, ...args: Array<string>): boolean => {
  try {
    execFileSync(name, args, { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

describe("the verification on the page, copied verbatim, decides all vectors", () => {
  const expected = vectors.map(({ valid }) => valid)

  it("in TypeScript", () => {
    const program = `import { readFileSync } from "node:fs"\n${block("ts verify")}
      const vectors = JSON.parse(readFileSync(0, "utf8"))
      console.log(JSON.stringify(vectors.map((one: any) =>
        verify(Buffer.from(one.body), one.signature, one.secrets, one.now))))`
    assert.deepStrictEqual(run("verify.ts", program, (path) => [process.execPath, path]), expected)
  })

  it.skipIf(!isThere("python3", "--version"))("in Python", () => {
    const program = `${block("python verify")}
import json, sys
print(json.dumps([verify(one["body"].encode(), one["signature"], one["secrets"], one["now"])
    for one in json.load(sys.stdin)]))`
    assert.deepStrictEqual(run("verify.py", program, (path) => ["python3", path]), expected)
  })

  it.skipIf(!isThere("go", "version"))("in Go", () => {
    const program = `${block("go verify").replace("import (", `import (\n\t"encoding/json"\n\t"os"`)}
func main() {
	var vectors []struct {
		Body, Signature string
		Secrets         []string
		Now             int64
	}
	if err := json.NewDecoder(os.Stdin).Decode(&vectors); err != nil {
		panic(err)
	}
	judged := []bool{}
	for _, one := range vectors {
		judged = append(judged, Verify([]byte(one.Body), one.Signature, one.Secrets, one.Now))
	}
	json.NewEncoder(os.Stdout).Encode(judged)
}`
    assert.deepStrictEqual(run("main.go", program, (path) => ["go", "run", path]), expected)
  })
})

describe("the retry table", () => {
  const unitMillis: Readonly<Record<string, number>> = { s: 1_000, min: 60_000, h: 3_600_000 }

  it("is the schedule", () => {
    const rows = [...page.matchAll(/^\| (\d+) \| (\d+) (s|min|h) \|$/gm)]
    assert.deepStrictEqual(
      rows.map(([, attempt, amount, unit = ""]) => [Number(attempt), Number(amount) * (unitMillis[unit] ?? 0)]),
      defaultRetryDelays.map((delay, index) => [index + 2, delay])
    )
    assert.include(page, `a random ${jitterRange.minimum} to ${jitterRange.maximum}`)
    assert.include(page, `the ${defaultRetryDelays.length + 1}th failure`)
  })
})
