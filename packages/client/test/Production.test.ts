import { CardRewards, CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import { IntegratorApi, SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"

const options = { baseUrl: "http://127.0.0.1:9", apiKey: Redacted.make("none") }

/** The difference between the types of the two clients. */
type OnlyInSandbox = Exclude<keyof CardRewardsSandbox["Service"], keyof CardRewards["Service"]>
type OnlyInProduction = Exclude<keyof CardRewards["Service"], keyof CardRewardsSandbox["Service"]>
const onlyInSandbox: [OnlyInSandbox, OnlyInProduction] extends ["sandbox", never] ? "sandbox" : never = "sandbox"

describe("the production client", () => {
  it.effect("has every group of the sandbox's client except the sandbox, in its type and at run time", () =>
    Effect.gen(function*() {
      const production = Object.keys(yield* CardRewards)
      const sandbox = Object.keys(yield* CardRewardsSandbox)
      assert.deepStrictEqual(sandbox.filter((name) => !production.includes(name)), [onlyInSandbox])
      assert.deepStrictEqual(production.filter((name) => !sandbox.includes(name)), [])
      assert.notProperty(IntegratorApi.groups, onlyInSandbox)
      assert.property(SandboxApi.groups, onlyInSandbox)
    }).pipe(Effect.provide(Layer.mergeAll(CardRewards.layer(options), CardRewardsSandbox.layer(options)).pipe(
      Layer.provide(FetchHttpClient.layer)
    ))))
})
