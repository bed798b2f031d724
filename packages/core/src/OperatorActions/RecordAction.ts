import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { value } from "../Database/Columns.ts"

/**
 * How a command ended. One that takes several transactions `began`, and its row is committed before its first change,
 * or with the first of several migrations; that of any other one is written in its only transaction, or, where it was
 * refused and changed nothing, afterwards.
 */
export type ActionOutcome = "done" | "unchanged" | "began" | "refused"

/** Arguments by name. Those that may be shown are listed by each command; a secret is none of these types. */
export type ActionArguments = Readonly<Record<string, string | number | boolean | undefined>>

/** What is recorded of a command; the database adds its own time and the login. */
export interface NewAction {
  /** One for each run of a command: its row is written once in a cell, whatever is repeated. */
  readonly actionId: string
  readonly osUser: string
  readonly host: string
  readonly command: string
  readonly arguments: ActionArguments
  /** The integrator that the command is about. */
  readonly integratorId?: string
}

/** Records the action of an operation, in the operation's transaction. */
export type RecordAction = (outcome: ActionOutcome) => Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>

/** For operations that no operator runs, such as an integrator's own. */
export const noAction: RecordAction = () => Effect.void

/** Inserts an action in the caller's transaction, unless it is there. A refusal has a reason, nothing else has one. */
export const insertAction = Effect.fnUntraced(function*(action: NewAction, outcome: ActionOutcome, reason?: string) {
  const sql = yield* SqlClient.SqlClient
  const { actionId, command, host, integratorId, osUser } = action
  yield* sql`INSERT INTO operator_actions
      (action_id, os_user, host, command, arguments, integrator, outcome, reason)
    VALUES (${value.text(actionId)}::uuid, ${osUser}, ${host}, ${command},
      ${value.text(JSON.stringify(action.arguments))}::jsonb, ${value.text(integratorId)}, ${outcome},
      ${value.text(reason)})
    ON CONFLICT (action_id) DO NOTHING`
})
