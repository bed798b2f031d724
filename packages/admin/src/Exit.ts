import { Cause, Exit, Schema } from "effect"
import { CliError } from "effect/cli"

/** What was asked for was refused, or the audit found something at fault; the message is one line. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", { message: Schema.String }) {}

/** What was given cannot be understood; the message is one line. */
export class Misused extends Schema.TaggedError<Misused>()("Misused", { message: Schema.String }) {}

/** 0 done, or help was asked for; 1 refused, at fault, or the database is away; 2 used wrongly; 130 interrupted. */
export const codeOf = (exit: Exit.Exit<unknown, unknown>): number => {
  if (Exit.isSuccess(exit)) return 0
  if (Cause.hasInterruptsOnly(exit.cause)) return 130
  const error = Cause.squash(exit.cause)
  if (error instanceof Misused) return 2
  if (!isShowHelp(error)) return 1
  return error.errors.length > 0 ? 2 : 0
}

/** What went wrong, as one line for a person; nothing where the command line's own output tells it. */
export const lineOf = (cause: Cause.Cause<unknown>): string | undefined => {
  const error = Cause.squash(cause)
  if (Cause.hasInterruptsOnly(cause) || isShowHelp(error)) return undefined
  return error instanceof Error ? oneLine(error.message === "" ? error.name : error.message) : "Something went wrong"
}

const isShowHelp = (error: unknown): error is CliError.ShowHelp =>
  CliError.isCliError(error) && error._tag === "ShowHelp"

/** Line breaks and control characters become spaces. */
export const oneLine = (message: string): string => message.replace(/[\s\p{Cc}]+/gu, " ").trim()
