import { describe, serverErrorOf } from "@card-rewards/core/Database/Errors"
import { oneLine } from "@card-rewards/domain/ApiKey"
import { Cause, Exit, Schema } from "effect"
import { CliError } from "effect/cli"

/** The service refused the command, or the audit found violations. The message is one line. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", {
  message: Schema.String,
  /** The code of PostgreSQL's error that is the reason: what its message says depends on `lc_messages`. */
  code: Schema.optionalKey(Schema.String),
  /** Whether nothing has refused the command: a database did not answer, or cannot be used. */
  isAway: Schema.optionalKey(Schema.Boolean)
}) {}

/** An argument or a file is not valid. The message is one line. */
export class Misused extends Schema.TaggedError<Misused>()("Misused", { message: Schema.String }) {}

/** Errors that are no refusals: whether the database did it is not known, or it was not asked. */
const noRefusals: ReadonlySet<unknown> = new Set(["Unavailable", "StartRefused", "SqlError", "Misused"])

/** Whether the service refused the command. */
export const isRefusal = (error: unknown): error is Error =>
  error instanceof Error && "_tag" in error && !noRefusals.has(error._tag) &&
  !(error instanceof Refused && error.isAway === true)

/** Why some of these failed: one error with the reason of each, or the first cause. Undefined where none did. */
export const causeOf = <A, E>(exits: ReadonlyArray<Exit.Exit<A, E>>): Cause.Cause<E | Refused> | undefined => {
  const causes = exits.filter(Exit.isFailure).map(({ cause }) => cause)
  const errors = causes.map(Cause.squash).filter((error) => error instanceof Refused)
  if (errors.length < 2 || errors.length < causes.length) return causes[0]
  const message = errors.map((error) => error.message).join("; ")
  return Cause.fail(new Refused({ message, isAway: errors.every(({ isAway }) => isAway === true) }))
}

/** 0 success or help; 1 refused, violations found, or the database is unreachable; 2 invalid usage; 130 interrupted. */
export const codeOf = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit)) return 0
  if (Cause.hasInterruptsOnly(exit.cause)) return 130
  const error = Cause.squash(exit.cause)
  if (error instanceof Misused) return 2
  if (!isShowHelp(error)) return 1
  return error.errors.length > 0 ? 2 : 0
}

/** The error as one line without secrets; undefined where the command line has printed it already. */
export const lineOf = (cause: Cause.Cause<unknown>): string | undefined => {
  const error = Cause.squash(cause)
  if (Cause.hasInterruptsOnly(cause) || isShowHelp(error)) return undefined
  return error instanceof Error ? reasonOf(error) : "Something went wrong"
}

/** Why a command failed, in one line without secrets: what PostgreSQL said, where that is the reason. */
export const reasonOf = (error: Error): string => {
  const said = serverErrorOf(error)
  return oneLine(said === undefined ? describe(error) : `The database failed: ${said.message}`)
}

const isShowHelp = (error: unknown): error is CliError.ShowHelp =>
  CliError.isCliError(error) && error._tag === "ShowHelp"
