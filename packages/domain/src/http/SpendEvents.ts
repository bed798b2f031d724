import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import { EventInFuture, IntegratorMismatch, SpendEvent, SpendEventAccepted, SpendEventConflict } from "../SpendEvent.ts"
import { UserNotEnrolled } from "../User.ts"
import { Authorization, RequestShape } from "./Authorization.ts"

/** Card events in: stored before the answer, processed after it. */
export class SpendEvents extends HttpApiGroup.make("spendEvents").add(
  HttpApiEndpoint.post("submit", "/v1/spend-events", {
    payload: SpendEvent,
    success: SpendEventAccepted.pipe(HttpApiSchema.status(202)),
    error: [IntegratorMismatch, SpendEventConflict, EventInFuture, UserNotEnrolled]
  })
).middleware(RequestShape).middleware(Authorization) {}
