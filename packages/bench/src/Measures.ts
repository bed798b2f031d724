import type { Requirements } from "./measures/Competitors.ts"
import { batchIngest } from "./measures/Batches.ts"
import { cells } from "./measures/Cells.ts"
import { deliveries } from "./measures/Deliveries.ts"
import { deliveryBytes } from "./measures/DeliveryBytes.ts"
import { growth } from "./measures/Growth.ts"
import { heavyIntegrator } from "./measures/HeavyIntegrator.ts"
import { heldTransaction } from "./measures/HeldTransaction.ts"
import { http } from "./measures/Http.ts"
import { idleEndpoints } from "./measures/IdleEndpoints.ts"
import { ingest } from "./measures/Ingest.ts"
import { insert } from "./measures/Insert.ts"
import { integrators } from "./measures/Integrators.ts"
import { latency, latencyOfMany } from "./measures/Latency.ts"
import { memory } from "./measures/Memory.ts"
import { outage } from "./measures/Outage.ts"
import { processCounts } from "./measures/ProcessCounts.ts"
import { processing } from "./measures/Processing.ts"
import { reads } from "./measures/Reads.ts"
import { start } from "./measures/Start.ts"
import { wholeLife } from "./measures/WholeLife.ts"
import type { Measure } from "./Measure.ts"

/** All measures in the order of the page: first those with peers, then those of the service alone. */
export const measures: ReadonlyArray<Measure<Requirements>> = [
  wholeLife,
  ingest,
  batchIngest,
  http,
  insert,
  processing,
  deliveries,
  reads,
  latency,
  latencyOfMany,
  growth,
  heavyIntegrator,
  integrators,
  cells,
  idleEndpoints,
  outage,
  deliveryBytes,
  processCounts,
  heldTransaction,
  memory,
  start
]
