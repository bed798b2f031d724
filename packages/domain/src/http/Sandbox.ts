import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { ClockCannotGoBack, SandboxClock } from "../SandboxClock.ts"
import { UserNotEnrolled } from "../User.ts"
import {
  ClaimSimulation,
  Simulation,
  SimulationConflict,
  SimulationRecorded,
  SimulationRefused,
  Vault
} from "../Vault.ts"
import { Authorization, RequestShape } from "./Authorization.ts"

/** The simulated vault and the clock that can be moved. None of it exists in production. */
export class Sandbox extends HttpApiGroup.make("sandbox").add(
  HttpApiEndpoint.get("vault", "/v1/sandbox/vault", { success: Vault }),
  HttpApiEndpoint.post("deposit", "/v1/sandbox/deposits", {
    payload: Simulation,
    success: SimulationRecorded,
    error: [SimulationConflict, SimulationRefused]
  }),
  HttpApiEndpoint.post("withdraw", "/v1/sandbox/withdrawals", {
    payload: Simulation,
    success: SimulationRecorded,
    error: [SimulationConflict, SimulationRefused]
  }),
  HttpApiEndpoint.post("claim", "/v1/sandbox/claims", {
    payload: ClaimSimulation,
    success: SimulationRecorded.pipe(HttpApiSchema.status(202)),
    error: [SimulationConflict, SimulationRefused, UserNotEnrolled]
  }),
  HttpApiEndpoint.get("clock", "/v1/sandbox/clock", { success: SandboxClock }),
  HttpApiEndpoint.put("moveClock", "/v1/sandbox/clock", {
    payload: SandboxClock,
    success: SandboxClock,
    error: ClockCannotGoBack
  })
).middleware(RequestShape).middleware(Authorization) {}
