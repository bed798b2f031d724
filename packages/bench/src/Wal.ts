import * as AdminSql from "@card-rewards/dev-postgres/AdminSql"
import { Effect, type Redacted } from "effect"

/** 2 GiB. */
const segments = 128

/**
 * Gives a new server what one has that has run for a while: files of its write-ahead log that it uses again. A new one
 * creates and syncs each of them (16 MiB) while all commits wait: without this the 99th percentile of a batch's
 * duration was 65 to 70 instead of 30 ms. Needs `min_wal_size`; otherwise the next checkpoint removes the files.
 */
export const recycle = Effect.fn("Wal.recycle")(function*(adminUrl: Redacted.Redacted) {
  const sql = yield* AdminSql.connect(adminUrl)
  for (let segment = 0; segment < segments; segment++) {
    yield* sql`SELECT pg_logical_emit_message(false, 'card-rewards bench', '')::text`
    yield* sql`SELECT pg_switch_wal()::text`
  }
  yield* sql`CHECKPOINT`
}, Effect.scoped, Effect.orDie)
