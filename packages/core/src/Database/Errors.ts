import { Unavailable } from "@card-rewards/domain/Errors"
import { Effect } from "effect"
import type { SqlError } from "effect/sql"

/** What a caller is told while the database is away or too slow. */
export const unavailable = () =>
  new Unavailable({ message: "The service cannot reach its database; send the same request again" })

/** Whether an error is of SQL, also where its type is lost, as in a defect. */
export const isSqlError = (error: unknown): error is SqlError.SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

/** Whether PostgreSQL rolled a transaction back because of another one: the same transaction may succeed now. */
export const isConflict = (error: unknown): boolean =>
  isSqlError(error) && (error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError")

/** An SQL error as callers see it: {@link Unavailable} where it passes by itself, a defect otherwise. */
export const toUnavailable = (error: SqlError.SqlError): Effect.Effect<never, Unavailable> =>
  error.isRetryable || isPassing(error.reason.cause) ? Effect.fail(unavailable()) : Effect.die(error)

/**
 * What passes without a change to this service, by PostgreSQL's error code: resources are short, a full disk included
 * (53); an operator, a restart or a recovery is in the way (57P); an I/O error (58); a time-out ended the session
 * (25P03, 25P04); the server has become a read-only one (25006).
 */
const isPassing = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "code" in cause && /^(53|57P|58|25P0[34]|25006)/u.test(`${cause.code}`)
