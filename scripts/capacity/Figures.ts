import type { Growth } from "./Growth.ts"
import type { Figures, Load, Machines } from "./Model.ts"

/**
 * The measured figures; no other file has them.
 *
 * Processor times: the medians of the run that docs/performance.md prints, on two cores of an AMD EPYC, of posts,
 * processing, deliveries and reads of balances, each at full load by itself. All at once take two fifths
 * more (docs/performance.md, the whole life).
 *
 * Bytes and counts: 50,000 events of 2,000 users in PostgreSQL 18 with its defaults; of 100 events 45 are
 * authorizations, 45 their clearings, 6 other clearings, 4 refunds. Every reward becomes pending, claimable and paid,
 * in one program. Relation sizes after VACUUM; log as the difference of `pg_current_wal_lsn`.
 *
 * What Citus costs: purchases from post to reward on one machine of two cores, with api, worker and load: 1,221 a
 * second through a coordinator with two nodes, 2,042 on plain PostgreSQL 15 (medians of three, see docs/scaling.md).
 * What a purchase takes longer is PostgreSQL's: (2/1,221 − 2/2,042) s over the 255 µs that it took then, and one.
 *
 * What delivery costs: `npm run bench -- --only deliveries`, with 32 busy endpoints, and `--only delivery-bytes`: 194
 * bytes of tables and 268 of log for an event that is delivered at its first attempt, times the events of a spend
 * event.
 */
export const figures: Figures = {
  cpuMicros: {
    api: { post: 70, read: 51 },
    worker: { event: 37, delivery: 37 },
    postgres: { store: 20, process: 64, read: 13, delivery: 11, onCitus: 3.6 }
  },
  perEvent: { events: 1.52 },
  bytesPerEvent: { tables: 2_500, deliveryTables: 295, wal: 4_015, deliveryWal: 407 }
}

/** An evening's peak, and integrators that read a balance after every other event. */
export const ordinary: Omit<Load, "eventsPerSecond"> = { peakFactor: 3, readsPerEvent: 0.5, delivers: true }

export const machines: Machines = {
  oneMachineCores: 8,
  largestServerCores: 64,
  largestServerBytes: 20e12,
  utilisation: 0.7,
  poolSize: 10
}

/** From a pilot to a large issuer in three years. */
export const growth: Growth = {
  months: 36,
  firstEventsPerSecond: 10,
  factorPerMonth: 1.15,
  retentionMonths: Number.POSITIVE_INFINITY
}
