import type { Needs } from "./measures/Contestants.ts"
import { deliveries } from "./measures/Deliveries.ts"
import { http, ingest } from "./measures/Ingest.ts"
import { insert } from "./measures/Insert.ts"
import { processing } from "./measures/Processing.ts"
import { reads } from "./measures/Reads.ts"
import type { Measure } from "./Measure.ts"

/** Every measure, in the order of the table. */
export const measures: ReadonlyArray<Measure<Needs>> = [ingest, http, insert, processing, deliveries, reads]
