import { oneLine } from "@card-rewards/domain/ApiKey"
import { Cause, Exit, Schema } from "effect"
import { CliError } from "effect/cli"

/** The command cannot be carried out, or the service refuses it. The message is one line. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", { message: Schema.String }) {}

/** A flag or an argument is not valid. The message is one line. */
export class Misused extends Schema.TaggedError<Misused>()("Misused", { message: Schema.String }) {}

/** The command has printed why it ends with exit code 1. */
export class Reported extends Schema.TaggedError<Reported>()("Reported", {}) {}

/** 0 success or help; 1 refused, or the service does not answer; 2 invalid usage; 130 interrupted. */
export const codeOf = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit)) return 0
  if (Cause.hasInterruptsOnly(exit.cause)) return 130
  const error = Cause.squash(exit.cause)
  if (error instanceof Misused) return 2
  if (!isShowHelp(error)) return 1
  return error.errors.length > 0 ? 2 : 0
}

/** The failure as one line without secrets; undefined where nothing failed, or where the line is printed already. */
export const lineOf = (cause: Cause.Cause<unknown>): string | undefined => {
  const error = Cause.squash(cause)
  const isPrinted = isShowHelp(error) || error instanceof Reported
  return Cause.hasInterruptsOnly(cause) || isPrinted ? undefined : messageOf(error)
}

/** An error as one line without secrets. It ends in its reason where another error caused it. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return "Something went wrong"
  const message = error.message === "" ? error.name : error.message
  return oneLine(causeOf(error) === undefined ? message : `${message}: ${reasonOf(error)}`)
}

/** The code, such as `ECONNREFUSED`, or the message of the error that `fetch` and Effect have wrapped in others. */
export const reasonOf = (error: unknown, depth = 4): string => {
  if (!(error instanceof Error)) return "unknown"
  const cause = causeOf(error)
  if (cause !== undefined && depth > 0) return reasonOf(cause, depth - 1)
  return "code" in error && typeof error.code === "string" ? error.code : oneLine(error.message)
}

const causeOf = (error: Error): Error | undefined => {
  const cause = error.cause ?? ("reason" in error ? error.reason : undefined)
  return cause instanceof Error ? cause : undefined
}

const isShowHelp = (error: unknown): error is CliError.ShowHelp =>
  CliError.isCliError(error) && error._tag === "ShowHelp"
