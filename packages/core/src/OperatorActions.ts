import type { Unavailable } from "@card-rewards/domain/Errors"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { value, withinRequestDeadline } from "./Database.ts"
import type { ActionArguments, ActionOutcome } from "./OperatorActions/RecordAction.ts"

/** A command that an operator ran; `at` is the real time of the database. */
export interface OperatorAction {
  readonly actionId: string
  readonly at: number
  /** The login of the database. */
  readonly login: string
  /** The user and the machine, as this machine says. */
  readonly osUser: string
  readonly host: string
  readonly command: string
  readonly arguments: ActionArguments
  readonly integrator: string | null
  readonly outcome: ActionOutcome
  readonly reason: string | null
}

/** Where a page of actions begins: after this one, from new to old. */
export type ActionCursor = Pick<OperatorAction, "at" | "actionId">

/** Which actions to list: at most `limit`, of one integrator or of all. */
export interface ActionQuery {
  readonly limit: number
  readonly integratorId: string | undefined
  readonly before: ActionCursor | undefined
}

/** The append-only record of what operators did in this cell. */
export class OperatorActions extends Context.Service<OperatorActions, {
  /** The newest actions first. A page costs the same wherever it is. */
  readonly list: (query: ActionQuery) => Effect.Effect<ReadonlyArray<OperatorAction>, Unavailable>
}>()("@card-rewards/core/OperatorActions") {
  static readonly layer = Layer.effect(
    OperatorActions,
    Effect.map(SqlClient.SqlClient, (sql) =>
      OperatorActions.of({
        list: Effect.fn("OperatorActions.list")(({ before, integratorId, limit }) =>
          withinRequestDeadline(sql<OperatorAction>`
            SELECT action_id::text, at, login, os_user, host, command, arguments, integrator, outcome, reason
            FROM operator_actions
            WHERE ${integratorId === undefined ? sql`true` : sql`integrator = ${integratorId}`} AND ${
            before === undefined
              ? sql`true`
              : sql`(at, action_id) < (${value.timestamptz(before.at)}, ${value.text(before.actionId)}::uuid)`
          } ORDER BY at DESC, action_id DESC LIMIT ${value.int4(limit)}`)
        )
      }))
  )
}
