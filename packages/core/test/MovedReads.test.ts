import { Journal } from "@card-rewards/core/Journal"
import { Vault } from "@card-rewards/core/Vault"
import { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { setSlot } from "./SlotState.ts"
import { newIntegrator, testLayer } from "./TestLayer.ts"

const services = Layer.merge(Journal.layer, Vault.layer).pipe(Layer.provideMerge(testLayer))

layer(services)("an integrator that moves to another cell", (it) => {
  it.effect("is unavailable to requests, also once its rows are deleted here", () =>
    Effect.gen(function*() {
      const { deposit } = yield* Vault
      const movement = { reference: Reference.make("d"), amount: { asset: "USDC" as const, amount: 1n } }
      assert.strictEqual((yield* Effect.flip(deposit(IntegratorId.make("gone"), movement)))._tag, "Unavailable")
    }))

  it.effect("has a journal that cannot be read on meanwhile, as if it ended there", () =>
    Effect.gen(function*() {
      const integratorId = yield* newIntegrator
      const { deposit } = yield* Vault
      const amount = { asset: "USDC" as const, amount: 1n }
      for (const name of ["d1", "d2"]) yield* deposit(integratorId, { reference: Reference.make(name), amount })
      const { list } = yield* Journal
      const { next } = yield* list(integratorId, { after: 0n, limit: 1 })
      yield* setSlot(integratorId, "leaving")
      assert.strictEqual((yield* Effect.flip(list(integratorId, { after: next, limit: 1 })))._tag, "Unavailable")
    }))
})
