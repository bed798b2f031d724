import { Command } from "effect/cli"
import { actions } from "./Commands/Actions.ts"
import { audit } from "./Commands/Audits.ts"
import { backlog } from "./Commands/Backlogs.ts"
import { cells } from "./Commands/Cells.ts"
import { example } from "./Commands/Examples.ts"
import { integrator } from "./Commands/Integrators.ts"
import { key } from "./Commands/Keys.ts"
import { migrate } from "./Commands/Migrate.ts"
import { replay } from "./Commands/Replays.ts"
import { seals } from "./Commands/Seals.ts"
import { secrets } from "./Commands/Secrets.ts"
import { simulate } from "./Commands/Simulate.ts"
import { vault } from "./Commands/Vaults.ts"

/** The operator's commands; see docs/operations.md. */
export const admin = Command.make("admin").pipe(
  Command.withDescription(
    "Operate card-rewards: integrators, keys, vaults, replays and audits. Exit codes: 0 success; 1 refused, " +
      "violations found, or the database is unreachable; 2 invalid usage"
  ),
  example("integrator create acme", "The first integrator, and its first API key"),
  Command.withSubcommands([
    integrator,
    key,
    vault,
    simulate,
    audit,
    actions,
    backlog,
    replay,
    secrets,
    seals,
    cells,
    migrate
  ])
)
