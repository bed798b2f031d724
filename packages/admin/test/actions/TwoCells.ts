import { Effect, Redacted } from "effect"
import { admin, DatabaseUrl, query, secretsKey } from "../Cli.ts"

/** Cell `a` is the schema `public`, `b` another one of the same database. */
export const run = (...args: ReadonlyArray<string>) => runWith([2, 1], args)

/** As `run`, with these keys of signing secrets. */
export const runWith = Effect.fnUntraced(function*(keys: ReadonlyArray<number>, args: ReadonlyArray<string>) {
  const url = Redacted.value((yield* DatabaseUrl).url)
  return yield* admin(args, {
    CELLS: `a=${url}?slots=0-255,b=${url}?schema=cell_b&slots=`,
    ENVIRONMENT: "production",
    SECRETS_KEY: keys.map(secretsKey).join(",")
  })
})

/** A recorded action, and where it is. */
interface Row {
  readonly cell: string
  readonly actionId: string
  readonly command: string
  readonly outcome: string
  readonly integrator: string | null
  readonly arguments: Readonly<Record<string, unknown>>
  readonly reason: string | null
}

export const rows = query<Row>(`SELECT 'a' AS cell, * FROM public.operator_actions
  UNION ALL SELECT 'b', * FROM cell_b.operator_actions ORDER BY at, cell`)

/** What is stored but for actions, in both cells. */
export const content = Effect.gen(function*() {
  const tables = yield* query<{ name: string }>(`SELECT oid::regclass::text AS name FROM pg_class
    WHERE relnamespace IN ('public'::regnamespace, 'cell_b'::regnamespace) AND relkind IN ('r', 'p')
      AND NOT relispartition AND relname <> 'operator_actions' ORDER BY 1`)
  const digests = tables.map(({ name }) =>
    `SELECT '${name}' AS name, md5(string_agg(t::text, ',' ORDER BY t::text)) AS rows FROM ${name} t`)
  return yield* query(`${digests.join(" UNION ALL ")} ORDER BY name`)
})

export const pair = ["--slots", "0-255", "--from", "a", "--to", "b"]
export const moving = ["cells", "move", ...pair, "--delete-after", "0"]
