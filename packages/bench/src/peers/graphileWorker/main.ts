/** graphile-worker as on its performance page: 24 jobs at once, a local queue of 500, batched completion. */
import { run } from "graphile-worker"
import { type EventKey, process as processEvent } from "../EventWork.ts"

const runner = await run({
  preset: {
    worker: {
      connectionString: process.env["DATABASE_URL"] ?? "",
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0
    }
  },
  taskList: {
    nothing: () => undefined,
    event: (key, { withPgClient }) => withPgClient((client) => processEvent(client, key as EventKey))
  }
})

process.once("SIGTERM", () => void runner.stop().finally(() => process.exit(0)))
await runner.promise
