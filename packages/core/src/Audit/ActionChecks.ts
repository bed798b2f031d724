import type { Check } from "./Check.ts"

const isOfProduction = "v.vault_id = 'production'"

/** The rules of what operators did, as it is recorded. */
export const actionChecks: ReadonlyArray<Check> = [
  {
    // those of an integrator that left the cell stay, and are not compared
    name: "each operation of a production vault has one operator's action, and each such action its operation",
    sql: `
      SELECT integrator_id, reference AS subject, coalesce(o.operation, 'no operation') AS expected,
        coalesce(a.operation, 'no action') AS actual
      FROM (
        SELECT o.integrator_id, o.reference, concat_ws(' ', o.kind, o.amount, o.asset, o.user_id) AS operation
        FROM vault_operations o JOIN vaults v ON v.integrator_id = o.integrator_id AND ${isOfProduction}
      ) o FULL JOIN (
        SELECT a.integrator AS integrator_id, a.arguments->>'reference' AS reference,
          string_agg(
            concat_ws(' ', k.kind, a.arguments->>'amount', a.arguments->>'asset', a.arguments->>'userId'), ', '
          ) AS operation
        FROM operator_actions a JOIN vaults v ON v.integrator_id = a.integrator AND ${isOfProduction}
        JOIN (VALUES ('vault deposit', 'deposit'), ('vault withdraw', 'withdrawal'), ('vault claim', 'claim'))
          AS k(command, kind) ON k.command = a.command
        WHERE a.outcome = 'done' GROUP BY 1, 2
      ) a USING (integrator_id, reference)
      WHERE o.operation IS DISTINCT FROM a.operation`
  }
]
