import { Effect, Redacted, type Scope } from "effect"
import { Client } from "pg"
import { Void } from "../Measure.ts"

/** A connection of pg until the scope closes, without time limits. */
export const connect = (url: Redacted.Redacted): Effect.Effect<Client, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new Client({ connectionString: Redacted.value(url) })
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end())
  )

/** Statements without parameters, one after another. */
export const execute = (client: Client, text: string): Effect.Effect<void, Void> =>
  Effect.asVoid(Effect.tryPromise({
    try: () => client.query(text),
    catch: (error) => new Void({ message: `${text}: ${error}` })
  }))
