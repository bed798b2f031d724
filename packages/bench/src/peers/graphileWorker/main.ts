/**
 * graphile-worker as on its performance page: 24 jobs at once, a local queue of 500, batched completion. With
 * `WEBHOOK_URL` each processed event also has a job that signs its webhook with `WEBHOOK_SECRET` and posts it there.
 */
import { run } from "graphile-worker"
import { type EventKey, process as processEvent, type Webhook } from "../EventWork.ts"
import { makePool } from "../Pool.ts"
import { poster } from "./Webhooks.ts"

const { DATABASE_URL, WEBHOOK_SECRET, WEBHOOK_URL } = process.env
const concurrentJobs = 24

const post = WEBHOOK_URL === undefined
  ? undefined
  : poster({ url: WEBHOOK_URL, secret: WEBHOOK_SECRET ?? "", connections: concurrentJobs })

const runner = await run({
  pgPool: makePool(DATABASE_URL ?? "", concurrentJobs + 1),
  preset: {
    worker: {
      concurrentJobs,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0
    }
  },
  taskList: {
    nothing: () => undefined,
    event: (key, { withPgClient }) =>
      withPgClient((client) => processEvent(client, key as EventKey, post !== undefined)),
    ...(post !== undefined && { webhook: (webhook) => post(webhook as Webhook) })
  }
})

process.once("SIGTERM", () => void runner.stop().finally(() => process.exit(0)))
await runner.promise
