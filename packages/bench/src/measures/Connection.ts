import { Effect, Redacted, type Scope } from "effect"
import { Client } from "pg"
import { InvalidRun } from "../Measure.ts"

/** A connection of pg without timeouts, closed with the scope. */
export const connect = (url: Redacted.Redacted): Effect.Effect<Client, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new Client({ connectionString: Redacted.value(url) })
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end())
  )

/** Runs one or more statements without parameters. */
export const execute = (client: Client, text: string): Effect.Effect<void, InvalidRun> =>
  Effect.asVoid(Effect.tryPromise({
    try: () => client.query(text),
    catch: (error) => new InvalidRun({ message: `${text}: ${error}` })
  }))
