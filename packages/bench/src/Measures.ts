import type { Needs } from "./measures/Contestants.ts"
import { deliveries } from "./measures/Deliveries.ts"
import { growth } from "./measures/Growth.ts"
import { heldTransaction } from "./measures/Held.ts"
import { http, ingest } from "./measures/Ingest.ts"
import { insert } from "./measures/Insert.ts"
import { integrators } from "./measures/Integrators.ts"
import { latency } from "./measures/Latency.ts"
import { memory } from "./measures/Memory.ts"
import { processCounts } from "./measures/ProcessCounts.ts"
import { processing } from "./measures/Processing.ts"
import { reads } from "./measures/Reads.ts"
import type { Measure } from "./Measure.ts"

/** Every measure, in the order of the table: beside peers, then beside itself. */
export const measures: ReadonlyArray<Measure<Needs>> = [
  ingest,
  http,
  insert,
  processing,
  deliveries,
  reads,
  latency,
  growth,
  integrators,
  processCounts,
  heldTransaction,
  memory
]
