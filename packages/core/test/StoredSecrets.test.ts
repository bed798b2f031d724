import { Secrets } from "@card-rewards/core/Secrets"
import { StoredSecrets } from "@card-rewards/core/StoredSecrets"
import { locationOf, WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import { EndpointId, type IntegratorId } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { setSlot } from "./SlotState.ts"
import { newIntegrator, secretsKey, testLayer } from "./TestLayer.ts"

/** The services of a process whose SECRETS_KEY has these keys. */
const under = (...keys: ReadonlyArray<number>) =>
  Effect.provide(
    Layer.mergeAll(StoredSecrets.layer, WebhookEndpoints.layer({ allowPrivateNetwork: false })).pipe(
      Layer.provide(Secrets.layer({ keys: keys.map(secretsKey) }))
    )
  )

const endpoint = { id: EndpointId.make("main"), url: "https://hooks.example.com/" }

/** Many endpoints of an integrator over time, all with the secret of the first one, each at its own location. */
const withSecrets = Effect.fnUntraced(function*(key: number, count: number) {
  const id = yield* newIntegrator
  yield* Effect.flatMap(WebhookEndpoints, ({ create }) => create(id, endpoint)).pipe(under(key))
  const sql = yield* SqlClient.SqlClient
  const [secret] = yield* Effect.flatMap(
    WebhookEndpoints,
    ({ signingSecrets }) => signingSecrets(id, 1)
  ).pipe(under(key))
  for (let generation = 2; generation <= count; generation++) {
    const encrypted = yield* Effect.flatMap(Secrets, ({ encrypt }) =>
      secret === undefined ? Effect.die("none") : encrypt(secret, locationOf(id, generation, 1))).pipe(
        Effect.provide(Secrets.layer({ keys: [secretsKey(key)] }))
      )
    yield* sql`INSERT INTO webhook_endpoints (integrator_id, generation, endpoint_id, url, created_at, deleted_at,
        first_revision, revision, start, cursor)
      VALUES (${id}, ${generation}::int, 'old', 'https://x.example', now(), now(), ${generation}::int,
        ${generation}::int, 0, 0)`
    yield* sql`INSERT INTO webhook_secrets (integrator_id, generation, rotation, encrypted)
      VALUES (${id}, ${generation}::int, 1, ${encrypted})`
  }
  return { id, secret: secret ?? assert.fail("no secret") }
})

const empty = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DELETE FROM webhook_secrets`)
const rotate = Effect.flatMap(StoredSecrets, (stored) => stored.rotate(() => Effect.void))
const secretsOf = (id: IntegratorId, generation: number) =>
  Effect.flatMap(WebhookEndpoints, ({ signingSecrets }) => signingSecrets(id, generation))

layer(testLayer)("a rotation of the key of signing secrets", (it) => {
  it.effect("re-encrypts all secrets under the first key, and has nothing to do the second time", () =>
    Effect.gen(function*() {
      const { id, secret } = yield* withSecrets(1, 205)
      const progress: Array<readonly [number, number]> = []
      const first = yield* Effect.flatMap(StoredSecrets, (stored) =>
        stored.rotate((done, total) => Effect.sync(() => progress.push([done, total])))).pipe(under(2, 1))
      assert.deepStrictEqual(first, { rotated: 205, unreadable: 0, remaining: 0 })
      assert.deepStrictEqual(progress, [[0, 205], [100, 205], [200, 205], [205, 205]])
      for (const generation of [1, 100, 205]) {
        assert.deepStrictEqual(yield* secretsOf(id, generation).pipe(under(2)), [secret])
      }
      assert.deepStrictEqual(yield* rotate.pipe(under(2, 1)), { rotated: 0, unreadable: 0, remaining: 0 })
    }))

  it.effect("can run twice at once, and while an api creates and deletes secrets", () =>
    Effect.gen(function*() {
      yield* empty
      const { id } = yield* withSecrets(2, 150)
      const api = Effect.gen(function*() {
        const { rotateSecret } = yield* WebhookEndpoints
        for (let times = 0; times < 6; times++) yield* rotateSecret(id, endpoint.id)
      }).pipe(under(2, 3))
      const [left, right] = yield* Effect.all(
        [rotate.pipe(under(3, 2)), rotate.pipe(under(3, 2)), api],
        { concurrency: 3 }
      )
      assert.strictEqual(left.unreadable + right.unreadable, 0)
      assert.isAtLeast(left.rotated + right.rotated, 149)
      yield* rotate.pipe(under(3, 2))
      const secrets = yield* secretsOf(id, 1).pipe(under(3))
      assert.strictEqual(new Set(secrets).size, 5, "the current secret and four replaced ones")
      assert.strictEqual((yield* secretsOf(id, 150).pipe(under(3))).length, 1)
    }))

  it.effect("reports and keeps secrets that no key decrypts, and re-encrypts the others", () =>
    Effect.gen(function*() {
      yield* empty
      const lost = yield* withSecrets(9, 3)
      const { id } = yield* withSecrets(4, 120)
      assert.deepStrictEqual(yield* rotate.pipe(under(5, 4)), { rotated: 120, unreadable: 3, remaining: 0 })
      assert.strictEqual((yield* secretsOf(id, 120).pipe(under(5))).length, 1)
      assert.deepStrictEqual(yield* secretsOf(lost.id, 2).pipe(under(9)), [lost.secret])
    }))

  it.effect("reports secrets of slots that are being moved, which it leaves alone", () =>
    Effect.gen(function*() {
      yield* empty
      const moved = yield* withSecrets(6, 3)
      yield* withSecrets(6, 2)
      yield* setSlot(moved.id, "leaving")
      assert.deepStrictEqual(yield* rotate.pipe(under(7, 6)), { rotated: 2, unreadable: 0, remaining: 3 })
      yield* setSlot(moved.id, "owned")
      assert.deepStrictEqual(yield* rotate.pipe(under(7, 6)), { rotated: 3, unreadable: 0, remaining: 0 })
    }))
})
