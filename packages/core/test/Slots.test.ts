import { isOwned, slotCount, slotOf } from "@card-rewards/core/Slots"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { assert, it, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../src/Database.ts"
import { Integrators } from "../src/Integrators.ts"
import { lockLanes } from "../src/Processing/Take.ts"
import { liveLayer } from "./TestLayer.ts"

/** As other programs compute it: `printf %s acme | sha256sum | cut -c 1-2`. */
const known = { acme: 0x82, demo: 0x2a, "integrator/ü 1": 0x31 }

it("an integrator's slot is the first byte of the SHA-256 of its id", () => {
  for (const [id, slot] of Object.entries(known)) assert.strictEqual(slotOf(id), slot, id)
})

layer(liveLayer, { excludeTestServices: true })("slots", (it) => {
  it.effect.prop("are the same to PostgreSQL", [IntegratorId], ([id]) =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ slot: number }>`
        SELECT get_byte(sha256(convert_to(${value.text(id)}, 'UTF8')), 0) AS slot`
      assert.strictEqual(slotOf(id), row?.slot)
    }))

  it.effect("are all the only cell's, and begin the keys of their integrators", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ slots: number }>`SELECT count(*)::int AS slots FROM cell_slots WHERE state = 'owned'`
      assert.strictEqual(row?.slots, slotCount)
      const { create } = yield* Integrators
      for (const [id, slot] of Object.entries(known)) {
        const { apiKey } = yield* create(IntegratorId.make(id))
        assert.match(Redacted.value(apiKey), new RegExp(`^service_sk_sandbox_${slot.toString(16).padStart(2, "0")}`))
      }
      yield* sql`UPDATE cell_slots SET state = 'leaving', peer = 'b', mark = gen_random_uuid()
        WHERE slot = ${value.int4(known.acme)}`
      // also where a scan found the lane before the slot was given away
      const lanes = ["acme", "demo"].map((id) => ({ integratorId: IntegratorId.make(id), lane: 0 }))
      const locked = yield* sql.withTransaction(lockLanes(lanes, "skip"))
      assert.deepStrictEqual(locked.map(({ integratorId }) => integratorId), ["demo"])
      const owned = yield* sql<{ id: string; isOwned: boolean }>`
        SELECT integrator_id AS id, ${isOwned("integrator_id")} AS is_owned FROM integrators ORDER BY integrator_id`
      assert.deepStrictEqual(owned.map(({ id, isOwned }) => [id, isOwned]), [
        ["acme", false],
        ["demo", true],
        ["integrator/ü 1", true]
      ])
    }))
})
