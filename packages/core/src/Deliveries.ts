import type { Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Cache, Context, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./Database.ts"
import type {
  EndpointLease,
  EndpointRecord,
  Leased,
  LeaseOptions,
  PollRequest,
  Reading,
  ReadRequest,
  Recorded,
  Released,
  Renewed
} from "./Deliveries/Delivery.ts"
import { lease, release, renew } from "./Deliveries/Lease.ts"
import { poll } from "./Deliveries/Poll.ts"
import { keepAttempts, purge } from "./Deliveries/Purge.ts"
import { read } from "./Deliveries/Read.ts"
import { record } from "./Deliveries/Record.ts"
import { readSecrets } from "./Deliveries/SigningSecrets.ts"
import { WebhookEndpoints } from "./WebhookEndpoints.ts"

export type * from "./Deliveries/Delivery.ts"

/** How many endpoints' secrets a process keeps decrypted, and for how long. */
const maxCachedSecrets = 10_000
const secretsTimeToLive = "1 minute"

/**
 * Consumers of the event logs (decisions, section 7; docs/decisions/0014-deliveries-as-log-consumers.md). An endpoint
 * is leased by one worker at a time, which reads its events after the cursor and its due retries, sends them, and
 * records what became of them. All statements of a holder have its token: those of an earlier holder change nothing.
 */
export class Deliveries extends Context.Service<Deliveries, {
  /** Leases endpoints with work, those that have waited longest first. Their events are read only after it returns. */
  readonly lease: (options: LeaseOptions) => Effect.Effect<ReadonlyArray<Leased>, Unavailable>
  /** Extends leases. One of which nothing is returned is lost. */
  readonly renew: (leases: ReadonlyArray<EndpointLease>, until: number) => Effect.Effect<Renewed, Unavailable>
  /** Returns the integrators whose endpoints are to be read: there is something to deliver, or the lease is lost. */
  readonly poll: (
    requests: ReadonlyArray<PollRequest>,
    now: number
  ) => Effect.Effect<ReadonlySet<IntegratorId>, Unavailable>
  /** Reads what is to be delivered. What is not returned is not held any more. */
  readonly read: (
    requests: ReadonlyArray<ReadRequest>,
    now: number
  ) => Effect.Effect<ReadonlyArray<Reading>, Unavailable>
  /** Stores records, each wholly or not at all. A record of which nothing is returned belongs to a lost lease. */
  readonly record: (records: ReadonlyArray<EndpointRecord>, now: number) => Effect.Effect<Recorded, Unavailable>
  /**
   * Gives up leases of endpoints that nothing is in flight for. Returns the integrators whose leases are still held,
   * because another transaction has locked the endpoint.
   */
  readonly release: (
    leases: ReadonlyArray<Released>,
    now: number
  ) => Effect.Effect<ReadonlySet<string>, Unavailable>
  /** Removes a batch of a deleted endpoint's retries, and its replays. Returns whether there was such an endpoint. */
  readonly purge: (now: number) => Effect.Effect<boolean, Unavailable>
  /** Creates partitions for the attempts of the coming weeks, and removes attempts older than some days. */
  readonly keepAttempts: (days: number) => Effect.Effect<void, Unavailable>
}>()("@card-rewards/core/Deliveries") {
  static readonly layer = Layer.effect(
    Deliveries,
    Effect.gen(function*() {
      const secrets = yield* Cache.makeWith(readSecrets(yield* WebhookEndpoints), {
        capacity: maxCachedSecrets,
        // a failure of the database is not kept
        timeToLive: (exit) => Exit.isSuccess(exit) ? secretsTimeToLive : 0
      })
      const sql = yield* SqlClient.SqlClient
      // not traced: they are repeated all the time, and each attempt has a span of its own
      const run = <A, E>(effect: Effect.Effect<A, E, SqlClient.SqlClient>) =>
        effect.pipe(Effect.withTracerEnabled(false), Effect.provideService(SqlClient.SqlClient, sql))
      return Deliveries.of({
        lease: (options) => run(Database.transaction(lease(options))),
        renew: (leases, until) => run(Database.withinRequestDeadline(renew(leases, until))),
        poll: (requests, now) => run(Database.withinRequestDeadline(poll(requests, now))),
        read: (requests, now) => run(Database.withinRequestDeadline(read(requests, now, secrets))),
        record: (records, now) => run(record(records, now)),
        release: (leases, now) => run(Database.transaction(release(leases, now))),
        purge: (now) => run(Database.transaction(purge(now))),
        keepAttempts: (days) => run(Database.backgroundStep(keepAttempts(days)))
      })
    })
  )
}
