import type { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createEndpoint } from "../Endpoint.ts"
import { purchase } from "../Purchase.ts"
import { type DatabaseUrl, query } from "../Cli.ts"
import { moving, pair } from "./TwoCells.ts"

const year = ["--from", "2099-11-01T00:00:00Z", "--to", "2099-12-01T00:00:00Z"]

type Prepare = Effect.Effect<unknown, unknown, DatabaseUrl | SqlClient.SqlClient>

/** A command, what it leaves in each cell that it works in, and what is prepared before. */
type Case = readonly [args: ReadonlyArray<string>, outcome: string, before?: Prepare]

/** In order; each one that changes something does so, is repeated, or is refused. */
export const cases = (candidate: string): ReadonlyArray<Case> => [
  [["migrate"], "a unchanged, b unchanged"],
  [["integrator", "create", "acme"], "a done"],
  [["integrator", "create", "acme"], "a refused"],
  [["integrator", "list", "--cell", "a"], ""],
  [["integrator", "suspend", "acme"], "a done"],
  [["integrator", "suspend", "acme"], "a unchanged"],
  [["integrator", "suspend", "nobody"], "a refused"],
  [["integrator", "resume", "acme"], "a done"],
  [["integrator", "resume", "acme"], "a unchanged"],
  [["key", "create", "acme", "second"], "a done"],
  [["key", "create", "acme", "second"], "a unchanged"],
  [["key", "revoke", "acme", "second"], "a done"],
  [["key", "revoke", "acme", "second"], "a unchanged"],
  [["key", "revoke", "acme", "default"], "a refused"],
  [["key", "create", "nobody", "first"], "a refused"],
  [["key", "revoke", "nobody", "default"], "a refused"],
  [["vault", "deposit", "acme", "d1", "USDC", "500000000"], "a done"],
  [["vault", "deposit", "acme", "d1", "USDC", "500000000"], "a unchanged"],
  [["vault", "deposit", "acme", "d1", "USDC", "7"], "a refused"],
  [["vault", "withdraw", "acme", "w1", "USDC", "500000001"], "a refused"],
  [["vault", "withdraw", "acme", "w1", "USDC", "100"], "a done"],
  [["vault", "withdraw", "acme", "w1", "USDC", "1e3"], ""],
  [["vault", "deposit", "nobody", "d1", "USDC", "9"], "a refused"],
  [["vault", "withdraw", "nobody", "w1", "USDC", "9"], "a refused"],
  [["vault", "claim", "nobody", "user-1", "c1", "USDC", "9"], "a refused"],
  [["vault", "claim", "acme", "user-1", "c1", "USDC", "900000"], "a done", purchase],
  [["vault", "claim", "acme", "nobody", "c2", "USDC", "1000000"], "a refused"],
  [["simulate", "acme", "groceries", candidate, ...year], ""],
  [["audit"], ""],
  [["actions"], ""],
  [["backlog"], ""],
  [["seals", "export", "--file", `${candidate}.seals`], ""],
  [["seals", "verify", "--file", `${candidate}.seals`], ""],
  [["replay", "start", "acme", "--from", "2026-01-01T00:00:00Z"], "a refused"],
  [["replay", "start", "acme", "--from", "2026-01-01T00:00:00Z"], "a done", createEndpoint],
  [["replay", "start", "acme", "--from", "2026-01-01T00:00:00Z"], "a refused"],
  [["replay", "show", "acme", "rpl_2"], ""],
  [["secrets", "rotate", "--cell", "a"], "a began"],
  [["secrets", "rotate", "--cell", "a"], "a unchanged"],
  [["cells", "list"], ""],
  [["cells", "move", "--slots", "0", "--from", "a", "--to", "a"], ""],
  [
    moving,
    "a refused, b refused",
    query("UPDATE public.cell_slots SET state = 'leaving', peer = 'c', mark = gen_random_uuid() WHERE slot = 7")
  ],
  [
    moving,
    "a began, b began",
    query("UPDATE public.cell_slots SET state = 'owned', peer = NULL, mark = NULL WHERE slot = 7")
  ],
  [moving, "a unchanged, b unchanged"],
  [["cells", "fence", ...pair], "a unchanged, b unchanged"],
  [
    ["cells", "fence", ...pair],
    "a began, b began",
    query("INSERT INTO public.cell_slots (slot, state, epoch) VALUES (7, 'owned', 1)")
  ]
]
