/** Logs for a second, and then says on standard error that it has not ended before. */
import * as Process from "@card-rewards/core/Process"
import { Effect, Schedule } from "effect"
import { writeSync } from "node:fs"

const logging = Effect.repeat(Effect.logInfo("a line"), { times: 50, schedule: Schedule.spaced(20) })

Process.run(Effect.andThen(logging, Effect.sync(() => writeSync(2, "went on\n"))), "keeps logging")
