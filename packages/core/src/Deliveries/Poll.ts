import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { value } from "../Database.ts"
import { perRow } from "../Database/PlannerHints.ts"
import { columnList, int8 } from "../Database/Table.ts"
import type { PollRequest } from "./Delivery.ts"
import { leaseColumns } from "./HeldEndpoints.ts"
import { nextWork } from "./NextWork.ts"
import { atOnce } from "./WakeUp.ts"

const requestColumns = columnList({ ...leaseColumns.columns, after: int8() })

/** Finds out which of leased endpoints are to be read: those with work, and those whose lease is lost. */
export const poll = Effect.fnUntraced(function*(requests: ReadonlyArray<PollRequest>, now: number) {
  const sql = yield* SqlClient.SqlClient
  const rows = requests.length === 0 ? [] : yield* sql<{ readonly integratorId: IntegratorId }>`
    SELECT t.integrator_id FROM ${requestColumns.unnest(requests)}
    LEFT JOIN LATERAL (
      SELECT true AS is_held, w.next_at FROM webhook_endpoints e
      JOIN vaults v ON v.integrator_id = e.integrator_id
      CROSS JOIN LATERAL (${nextWork(sql, "e", { at: atOnce(now), hasEvents: sql`v.events > t.after` })}) w
      WHERE ${leaseColumns.match("e", "t")} ${perRow}
    ) e ON true
    WHERE e.is_held IS NULL OR e.next_at <= ${value.timestamptz(now)}`
  return new Set(rows.map(({ integratorId }) => integratorId))
})
