import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"
import { Services } from "./Services.ts"

/** The simulated vault and the clock that can be moved. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "sandbox",
  Effect.fnUntraced(function*(handlers) {
    const { sandboxClock: clock, vault } = yield* Services
    return handlers
      .handle("vault", () => forIntegrator(vault.get))
      .handle("deposit", ({ payload }) => forIntegrator((id) => vault.deposit(id, payload)))
      .handle("withdraw", ({ payload }) => forIntegrator((id) => vault.withdraw(id, payload)))
      .handle("claim", ({ payload }) => forIntegrator((id) => vault.claim(id, payload)))
      .handle("clock", () => forIntegrator(clock.get))
      .handle("moveClock", ({ payload }) => forIntegrator((id) => clock.set(id, payload.now)))
  })
)
