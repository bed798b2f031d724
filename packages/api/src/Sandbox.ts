import { SandboxApi } from "@card-rewards/domain/http/IntegratorApi"
import { HttpApiBuilder } from "effect/http-api"
import { forIntegrator } from "./ForIntegrator.ts"

/** The simulated vault and the clock that can be moved. */
export const layer = HttpApiBuilder.group(
  SandboxApi,
  "sandbox",
  (handlers) =>
    handlers
      .handle("vault", () => forIntegrator((id, { vault }) => vault.get(id)))
      .handle("deposit", ({ payload }) => forIntegrator((id, { vault }) => vault.deposit(id, payload)))
      .handle("withdraw", ({ payload }) => forIntegrator((id, { vault }) => vault.withdraw(id, payload)))
      .handle("claim", ({ payload }) => forIntegrator((id, { vault }) => vault.claim(id, payload)))
      .handle("clock", () => forIntegrator((id, { sandboxClock }) => sandboxClock.get(id)))
      .handle("moveClock", ({ payload }) => forIntegrator((id, { sandboxClock }) => sandboxClock.set(id, payload.now)))
)
