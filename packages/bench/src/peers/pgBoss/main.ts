/**
 * pg-boss that is notified of new jobs, with full batches fetched without a pause between them, and for events as many
 * workers as connections.
 */
import { PgBoss } from "pg-boss"
import { type EventKey, process as processEvent } from "../EventWork.ts"
import { idleTimeoutMillis, makePool } from "../Pool.ts"

const connectionString = process.env["DATABASE_URL"] ?? ""
const pool = makePool(connectionString, 16)
// pg-boss also passes to its pool what is not in the type of its options
const ownPool = { connectionString, max: 10, idleTimeoutMillis }
const boss = new PgBoss({ ...ownPool, schedule: false, supervise: false, useListenNotify: true })

await boss.start()
await boss.createQueue("nothing", { notify: true })
await boss.createQueue("event", { notify: true })

const polling = { pollingIntervalSeconds: 0.5, notifyPollingIntervalSeconds: 0.5, burstWhenBatchFull: true }

await boss.work("nothing", { ...polling, batchSize: 1_000, localConcurrency: 4 }, async () => undefined)
await boss.work<EventKey>("event", { ...polling, batchSize: 20, localConcurrency: 16 }, async (jobs) => {
  const client = await pool.connect()
  try {
    for (const { data } of jobs) await processEvent(client, data)
  } finally {
    client.release()
  }
})

process.once("SIGTERM", () => void boss.stop().finally(() => process.exit(0)))
