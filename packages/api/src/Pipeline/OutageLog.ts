import { serverErrorOf } from "@card-rewards/core/Database/Errors"
import { Clock, Effect } from "effect"
import { cellOf } from "./RequestCell.ts"

/** For how long after a line about an error of PostgreSQL no other one is logged. */
const quietNanos = 10_000_000_000n

/**
 * Logs why requests are answered 503, where PostgreSQL said so: one line for each of its codes, and each cell, in 10 s,
 * however many requests fail.
 */
export class OutageLog {
  /** By cell and code. */
  readonly #quietUntilNanos = new Map<string, bigint>()

  /** Notes the error that the current request is answered with. */
  note(error: object): Effect.Effect<void> {
    const said = serverErrorOf(error)
    if (said === undefined) return Effect.void
    return Effect.withFiber((request) => {
      const cell = cellOf(request)
      const key = `${cell ?? ""} ${said.code}`
      const now = request.getRef(Clock.Clock).monotonicTimeNanosUnsafe()
      if (now < (this.#quietUntilNanos.get(key) ?? now)) return Effect.void
      this.#quietUntilNanos.set(key, now + quietNanos)
      const line = Effect.logWarning(`Requests are answered 503: ${said.message}`)
      return cell === undefined ? line : Effect.annotateLogs(line, "cell", cell)
    })
  }
}
