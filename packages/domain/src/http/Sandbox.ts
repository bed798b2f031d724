import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { ClockCannotGoBack, SandboxClock } from "../SandboxClock.ts"
import { UserNotEnrolled } from "../User.ts"
import {
  ClaimRequest,
  SimulationConflict,
  SimulationRecorded,
  SimulationRefused,
  Vault,
  VaultOperationRequest
} from "../Vault.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

/** The simulated vault and the movable clock, which do not exist in production. */
export class Sandbox extends HttpApiGroup.make("sandbox").add(
  HttpApiEndpoint.get("vault", "/v1/sandbox/vault", { success: Vault }).annotateMerge(OpenApi.annotations({
    summary: "Read the vault",
    description: "The money in the vault, and its free part."
  })),
  HttpApiEndpoint.post("deposit", "/v1/sandbox/deposits", {
    payload: VaultOperationRequest,
    success: SimulationRecorded,
    error: [SimulationConflict, SimulationRefused]
  }).annotateMerge(OpenApi.annotations({
    summary: "Simulate a deposit",
    description: "Recorded as if confirmed on-chain. Rewards that await funding are reserved in the order of their " +
      "creation. A repeat of the exact request is `duplicate: true`."
  })),
  HttpApiEndpoint.post("withdraw", "/v1/sandbox/withdrawals", {
    payload: VaultOperationRequest,
    success: SimulationRecorded,
    error: [SimulationConflict, SimulationRefused]
  }).annotateMerge(OpenApi.annotations({
    summary: "Simulate a withdrawal",
    description: "Takes free money only. A repeat of the exact request is `duplicate: true`."
  })),
  HttpApiEndpoint.post("claim", "/v1/sandbox/claims", {
    payload: ClaimRequest,
    success: SimulationRecorded.pipe(HttpApiSchema.status(202)),
    error: [SimulationConflict, SimulationRefused, UserNotEnrolled]
  }).annotateMerge(OpenApi.annotations({
    summary: "Simulate a claim",
    description: "Pays the user part or all of the claimable amount, oldest claimable rewards first. A repeat of the " +
      "exact request is `duplicate: true`."
  })),
  HttpApiEndpoint.get("clock", "/v1/sandbox/clock", { success: SandboxClock }).annotateMerge(OpenApi.annotations({
    summary: "Read the sandbox clock",
    description: "It advances in real time from the time to which it was moved."
  })),
  HttpApiEndpoint.put("moveClock", "/v1/sandbox/clock", {
    payload: SandboxClock,
    success: SandboxClock,
    error: ClockCannotGoBack
  }).annotateMerge(OpenApi.annotations({
    summary: "Move the sandbox clock",
    description: "Forward only, and not beyond the year 9000. Rewards whose holding period has ended become " +
      "claimable at once."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "The simulated vault and the movable clock, which do not exist in production.") {}
