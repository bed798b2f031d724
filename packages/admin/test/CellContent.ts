import { Effect } from "effect"
import { query } from "./Cli.ts"

/** The rows of integrators in each table of a schema as text; partitions are parts of their table. */
export const contentOf = Effect.fnUntraced(function*(schema: string) {
  const tables = yield* query<{ name: string }>(`SELECT relname AS name FROM pg_class
    WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1`)
  const content: Record<string, ReadonlyArray<string>> = {}
  for (const { name } of tables) {
    if (["cell_slots", "effect_sql_migrations", "operator_actions"].includes(name)) continue
    const rows = yield* query<{ row: string }>(`SELECT t::text AS row FROM ${schema}.${name} t ORDER BY 1`)
    content[name] = rows.map(({ row }) => row)
  }
  return content
})

/** Those of {@link contentOf} that have any. */
export const tablesWithRows = (schema: string) =>
  Effect.map(contentOf(schema), (content) =>
    Object.entries(content).filter(([, rows]) => rows.length > 0).map(([name]) => name))
