import { Schema } from "effect"
import { Timestamp } from "./Time.ts"

/** The sandbox clock cannot be moved beyond the start of the year 9000. */
export const latestClockMillis = Date.parse("9000-01-01T00:00:00.000Z")

/** Request and response body of `/v1/sandbox/clock` (decisions, section 9). */
export const SandboxClock = Schema.Struct({ now: Timestamp }).annotate({
  identifier: "SandboxClock",
  expected: "an object",
  description: "The integrator's own sandbox clock."
})
export type SandboxClock = typeof SandboxClock.Type

/** 422: the clock only moves forward; `now` is its present time. */
export class ClockCannotGoBack extends Schema.TaggedError<ClockCannotGoBack>()("ClockCannotGoBack", {
  message: Schema.String,
  now: Timestamp
}, { httpApiStatus: 422 }) {}
