import { Programs } from "@card-rewards/core/Programs"
import { Rewards } from "@card-rewards/core/Rewards"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { ProgramId, Reference, UserId } from "@card-rewards/domain/Ids"
import { instant } from "@card-rewards/domain/Time"
import { processAll } from "@card-rewards/testing/EventProcessing"
import { definition, spendEvent, usd } from "@card-rewards/testing/Fixtures"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { moneyLayer } from "./Spending.ts"
import { newIntegrator, startMillis } from "./TestLayer.ts"

layer(moneyLayer)("balances that are read by one statement", (it) => {
  it.effect("are each user's own, at each integrator's time", () =>
    Effect.gen(function*() {
      const rewards = yield* Rewards
      const users = ["ann", "bob", "nobody", "cid"].map((user) => UserId.make(user))
      const dayMillis = 86_400_000
      const integrators = [yield* newIntegrator, yield* newIntegrator] as const
      for (const integratorId of integrators) {
        for (const userId of users) {
          if (userId !== "nobody") yield* (yield* Users).put(integratorId, userId, {})
        }
        yield* (yield* Programs).publish(integratorId, ProgramId.make("p"), 1, definition(startMillis + 400_000), [])
        yield* (yield* SandboxClock).set(integratorId, instant(startMillis + 500_000))
        const amount = { asset: "USDC", amount: 10n ** 9n } as const
        yield* (yield* Vault).deposit(integratorId, { reference: Reference.make("d"), amount })
        for (const [index, userId] of ["ann", "bob"].entries()) {
          const event = { kind: "clearing", externalTransactionId: "c", amount: usd((index + 1) * 10_000) }
          yield* (yield* SpendEvents).submit(spendEvent(integratorId, userId, startMillis + 500_000, event))
        }
      }
      yield* processAll
      // here the holding period is over
      yield* (yield* SandboxClock).set(integrators[1], instant(startMillis + 500_000 + 14 * dayMillis))
      const found = yield* Effect.forEach(
        integrators.flatMap((integratorId) => users.map((userId) => rewards.balance(integratorId, userId))),
        (balance) => Effect.match(balance, {
          onSuccess: ({ balances: [usdc], userId }) => `${userId}: ${usdc?.pending}, ${usdc?.claimable}`,
          onFailure: ({ _tag }) => _tag
        }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(found, [
        "ann: 1000000, 0",
        "bob: 2000000, 0",
        "NotFound",
        "cid: 0, 0",
        "ann: 0, 1000000",
        "bob: 0, 2000000",
        "NotFound",
        "cid: 0, 0"
      ])
    }))
})
