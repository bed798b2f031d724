import { Unavailable } from "@card-rewards/domain/Errors"
import { Data, Effect } from "effect"
import type { SqlError } from "effect/sql"

/**
 * What PostgreSQL said where that made an operation fail with {@link Unavailable}, of which it is the cause: for the
 * log, not for clients. The message is one line and ends with the code. The statement and PostgreSQL's detail, which
 * may have values of rows, are left out.
 */
export class ServerError extends Data.TaggedError("ServerError")<{
  readonly code: string
  readonly message: string
}> {}

/** The error of a caller while the database is unreachable or too slow. */
export const unavailable = (cause?: ServerError) => {
  const error = new Unavailable({ message: "The service cannot reach its database; send the same request again" })
  return cause === undefined ? error : Object.defineProperty(error, "cause", { value: cause })
}

/** What PostgreSQL said, where that is why an operation is unavailable. */
export const serverErrorOf = (error: unknown): ServerError | undefined =>
  error instanceof Unavailable && error.cause instanceof ServerError ? error.cause : undefined

/** Whether a value of unknown type, such as a defect, is an SQL error. */
export const isSqlError = (error: unknown): error is SqlError.SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

/**
 * Whether PostgreSQL rolled a transaction back because of a concurrent one, so that a retry may succeed; also one that
 * has added a column since the statement was prepared (`cached plan must not change result type`).
 */
export const isConflict = (error: unknown): boolean =>
  isSqlError(error) &&
  (error.reason._tag === "DeadlockError" || error.reason._tag === "SerializationError" ||
    hasChangedResult(error.reason.cause))

/** By the function of PostgreSQL that says so: its code, 0A000, is that of all that is not supported. */
const hasChangedResult = (cause: unknown): boolean =>
  typeof cause === "object" && cause !== null && "routine" in cause && cause.routine === "RevalidateCachedQuery"

/**
 * Maps an SQL error to {@link Unavailable} where it is transient, and to a defect otherwise. A connection that is
 * refused, because of a password or a database that is renamed, for instance, is a fault of the operation.
 */
export const toUnavailable = (error: SqlError.SqlError): Effect.Effect<never, Unavailable> =>
  isPassing(error) || error.reason.operation === "connect"
    ? Effect.fail(unavailable(fromServer(error)))
    : Effect.die(error)

/** Whether the same statement may succeed later, without a change to this service or to rows. */
export const isPassing = (error: SqlError.SqlError): boolean => error.isRetryable || isTransient(error.reason.cause)

const fromServer = (error: SqlError.SqlError): ServerError | undefined =>
  isFromServer(error)
    ? new ServerError({
      code: codeOf(error.reason.cause) ?? "",
      message: describe(error).replace(/[\s\p{Cc}]+/gu, " ")
    })
    : undefined

/** Whether a session that can change nothing refused a statement. */
export const isReadOnly = (error: SqlError.SqlError): boolean => codeOf(error.reason.cause) === "25006"

/**
 * Whether an error can end without a change to this service, by PostgreSQL's error code: insufficient resources, such
 * as a full disk (53); operator intervention, restart or recovery (57P); I/O errors (58); a session ended by a timeout
 * (25P03, 25P04); a server that has become read-only (25006). Or a prepared statement's result has changed.
 */
const isTransient = (cause: unknown): boolean =>
  /^(53|57P|58|25P0[34]|25006)/u.test(codeOf(cause) ?? "") || hasChangedResult(cause)

/** The code of PostgreSQL, or of Node, in a driver's error. */
const codeOf = (cause: unknown): string | undefined =>
  typeof cause === "object" && cause !== null && "code" in cause ? `${cause.code}` : undefined

/** Whether PostgreSQL sent an error, rather than the connection or the driver failing. */
export const isFromServer = (error: unknown): boolean =>
  isSqlError(error) && /^(?:\d[\dA-Z]|P0|XX|F0|HV)[\dA-Z]{3}$/u.test(codeOf(error.reason.cause) ?? "")

/** Why the server's certificate is refused, in the words of Node's TLS; undefined where it is not. */
export const refusedCertificate = (error: unknown): string | undefined => {
  const code = isSqlError(error) ? codeOf(error.reason.cause) ?? "" : ""
  return /CERT|SIGNATURE/u.test(code) ? code : undefined
}

/** What an error is, in a text: of one of PostgreSQL's its message and code, such as `… (22P02)`. */
export const describe = (error: unknown): string => {
  if (!isSqlError(error)) return error instanceof Error && error.message !== "" ? error.message : String(error)
  const { cause } = error.reason
  const code = codeOf(cause)
  return `${cause instanceof Error ? cause.message : error.message}${code === undefined ? "" : ` (${code})`}`
}
