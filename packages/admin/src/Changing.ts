import { withinRequestDeadline } from "@card-rewards/core/Database"
import {
  type ActionArguments,
  type ActionOutcome,
  insertAction,
  type NewAction,
  type RecordAction
} from "@card-rewards/core/OperatorActions/RecordAction"
import { oneLine } from "@card-rewards/domain/ApiKey"
import { Context, Effect } from "effect"
import { Command } from "effect/cli"
import type { SqlClient, SqlError } from "effect/sql"
import { randomUUID } from "node:crypto"
import { hostname, userInfo } from "node:os"
import { isRefusal } from "./Exit.ts"

/** Who runs the command line, as this machine says. */
export const Operator = Context.Reference<Pick<NewAction, "osUser" | "host">>("@card-rewards/admin/Operator", {
  defaultValue: () => ({ osUser: osUser(), host: hostname().slice(0, 255) })
})

/** A container may run as a user without a name. */
const osUser = (): string => {
  try {
    return userInfo().username
  } catch {
    return `${process.getuid?.() ?? "unknown"}`
  }
}

/**
 * The full name of a command that changes something; absent from all others. The sessions of these are read-only, so
 * that a change outside of {@link changing} fails.
 */
export const Changes = Context.Reference<string | undefined>("@card-rewards/admin/Changes", {
  defaultValue: () => undefined
})

/** Inserts an action into the database of a cell. */
export type Insert = Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>

interface Recording<Input, E, R, RefusedE, RefusedR> {
  /** The arguments to record: each one is named here. */
  readonly arguments: (input: Input) => ActionArguments
  /** Where a refusal is recorded, after the transaction was rolled back. */
  readonly onRefusal: (input: Input, insert: Insert) => Effect.Effect<void, RefusedE, RefusedR>
  /** Runs the command, which calls `record` in its transaction, or before its first one. */
  readonly run: (input: Input, record: RecordAction) => Effect.Effect<void, E, R>
}

/**
 * A command that changes something, by its full name. It leaves one row of `operator_actions`, also where it changed
 * nothing or was refused. It leaves none where the outcome is not known, such as when the database did not answer: then
 * the change and its row are both there, or neither is.
 */
export const changing = <const Config extends Command.Command.Config, E, R, RefusedE, RefusedR>(
  command: string,
  config: Config,
  recording: Recording<Command.Command.Config.Infer<Config>, E, R, RefusedE, RefusedR>
) =>
  Command.make(command.split(" ").at(-1) ?? command, config, Effect.fnUntraced(function*(input) {
    const integratorId = integratorOf(input)
    const action: NewAction = {
      actionId: randomUUID(),
      ...(yield* Operator),
      command,
      arguments: recording.arguments(input),
      ...(integratorId !== undefined && { integratorId })
    }
    let isRecorded = false
    const insert = (outcome: ActionOutcome, reason?: string) =>
      Effect.tap(insertAction(action, outcome, reason), () => Effect.sync(() => isRecorded = true))
    yield* recording.run(input, insert).pipe(
      Effect.tapError((error) => {
        const reason = refusalOf(error)
        if (reason === undefined) return Effect.void
        // a refusal that cannot be recorded is printed nevertheless
        return Effect.exit(recording.onRefusal(input, insert("refused", reason)))
      })
    )
    if (!isRecorded) return yield* Effect.die(new Error(`${command} recorded no action`))
  })).pipe(Command.annotate(Changes, command))

/** Where a command with one transaction records that it was refused. */
export const inItsCell = (_input: unknown, insert: Insert) => withinRequestDeadline(insert)

const integratorOf = (input: unknown): string | undefined =>
  typeof input === "object" && input !== null && "integratorId" in input && typeof input.integratorId === "string"
    ? input.integratorId
    : undefined

/** Why the service refused the command. */
const refusalOf = (error: unknown): string | undefined =>
  isRefusal(error) ? oneLine(error.message).slice(0, 1_000).toWellFormed() : undefined
