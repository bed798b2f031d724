import { ApiKeyName } from "@card-rewards/domain/Ids"
import { NodeCrypto } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { ApiKeys } from "../src/ApiKeys.ts"
import { value } from "../src/Database.ts"
import { Integrators } from "../src/Integrators.ts"
import { hashApiKey } from "../src/Secrets.ts"
import { slotOf } from "../src/Slots.ts"
import { setSlot } from "./SlotState.ts"
import { newIntegrator, pairRuns, startMillis, testLayer } from "./TestLayer.ts"

const layer = Layer.mergeAll(ApiKeys.layer, NodeCrypto.layerDigest).pipe(Layer.provideMerge(testLayer))
const name = (text: string) => ApiKeyName.make(text)

it.layer(layer)("ApiKeys", (it) => {
  it.effect("finds a created key by its hash; a repeat is a duplicate without the secret, even once revoked", () =>
    Effect.gen(function*() {
      const keys = yield* ApiKeys
      const integratorId = yield* newIntegrator
      const { duplicate, key, secret = "" } = yield* keys.create(integratorId, name("b"))
      assert.isFalse(duplicate)
      assert.strictEqual(key.last4, secret.slice(-4))
      const hash = yield* hashApiKey(Redacted.make(secret))
      const [slot, client] = [slotOf(integratorId), "client"]
      const found = { integratorId, name: name("b"), revoked: false, slot, suspended: false }
      assert.deepStrictEqual(yield* keys.find({ hash, slot, client }), Option.some(found))
      const revoked = yield* keys.revoke(integratorId, name("b"))
      assert.deepStrictEqual(yield* keys.revoke(integratorId, name("b")), revoked)
      assert.deepStrictEqual(yield* keys.create(integratorId, name("b")), { key: revoked, duplicate: true })
      yield* (yield* Integrators).suspend(integratorId)
      const closed = Option.some({ ...found, revoked: true, suspended: true })
      assert.deepStrictEqual(yield* keys.find({ hash, slot, client }), closed)
      assert.deepStrictEqual(yield* keys.find({ hash: new Uint8Array(32), slot, client }), Option.none())

      // without the slot what is here may be behind the slot's owner, or deleted: it is no reason for 401
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE cell_slots SET state = 'left', peer = 'b', mark = gen_random_uuid() WHERE slot = ${
        value.int4(slot)
      }`
      assert.deepStrictEqual(yield* keys.find({ hash, slot, client }), closed)
      const unknown = yield* Effect.flip(keys.find({ hash: new Uint8Array(32), slot, client }))
      assert.strictEqual(unknown._tag, "Unavailable")
      const other = keys.find({ hash: new Uint8Array(32), slot: (slot + 1) % 256, client })
      assert.deepStrictEqual(yield* other, Option.none())
      yield* sql`UPDATE cell_slots SET state = 'owned', peer = NULL, mark = NULL`
    }))

  it.effect("refuses the 21st active key with ApiKeyLimit 20; a repeat of the 20th is a duplicate", () =>
    Effect.gen(function*() {
      const keys = yield* ApiKeys
      const integratorId = yield* newIntegrator
      for (let made = 1; made < 20; made++) yield* keys.create(integratorId, name(`${made}`))
      const error = yield* Effect.flip(keys.create(integratorId, name("20")))
      assert.strictEqual(error._tag === "ApiKeyLimit" ? error.limit : undefined, 20)
      assert.isTrue((yield* keys.create(integratorId, name("19"))).duplicate)
      assert.lengthOf(yield* keys.list(integratorId), 20)
    }))

  it.effect("refuses to revoke the last active key with LastActiveKey, and an unknown one with NotFound", () =>
    Effect.gen(function*() {
      const keys = yield* ApiKeys
      const integratorId = yield* newIntegrator
      assert.strictEqual((yield* Effect.flip(keys.revoke(integratorId, name("default"))))._tag, "LastActiveKey")
      assert.strictEqual((yield* Effect.flip(keys.revoke(integratorId, name("x"))))._tag, "NotFound")
    }))

  it.effect("records the last use of a key to the minute, and never an earlier one", () =>
    Effect.gen(function*() {
      const keys = yield* ApiKeys
      const other = yield* newIntegrator
      const integratorId = yield* newIntegrator
      const use = (at: number) => ({ integratorId, name: name("default"), at: startMillis + at })
      yield* keys.markUsed([use(61_000), use(119_999), use(5)])
      yield* keys.markUsed([use(0)])
      assert.strictEqual((yield* keys.list(integratorId))[0]?.lastUsedAt, startMillis + 60_000)
      // its key has the same name
      assert.notProperty((yield* keys.list(other))[0], "lastUsedAt")
    }))

  it.effect("records no use while the slot is being moved", () =>
    Effect.gen(function*() {
      const keys = yield* ApiKeys
      const integratorId = yield* newIntegrator
      yield* setSlot(integratorId, "leaving")
      yield* keys.markUsed([{ integratorId, name: name("default"), at: startMillis + 60_000 }])
      assert.notProperty((yield* keys.list(integratorId))[0], "lastUsedAt")
    }))

  it.effect("of two concurrent identical creations one shows the secret; of two last revocations one is refused", () =>
    Effect.gen(function*() {
      const keys = yield* ApiKeys
      for (let run = 0; run < pairRuns; run++) {
        const integratorId = yield* newIntegrator
        const create = keys.create(integratorId, name("pair"))
        const created = yield* Effect.all([create, create], { concurrency: 2 })
        assert.deepStrictEqual(created.map((one) => one.duplicate).sort(), [false, true])
        const revoked = yield* Effect.all(
          ["pair", "default"].map((one) => Effect.result(keys.revoke(integratorId, name(one)))),
          { concurrency: 2 }
        )
        assert.deepStrictEqual(revoked.map((one) => one._tag).sort(), ["Failure", "Success"])
      }
    }))
})
