import { StoredSecrets } from "@card-rewards/core/StoredSecrets"
import { Effect, Option } from "effect"
import { Command } from "effect/cli"
import { changing, inItsCell } from "../Changing.ts"
import { Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { withBar } from "../Screen.ts"
import { withSecretsServices } from "../Services.ts"
import { cell } from "./Arguments.ts"
import { example } from "./Examples.ts"

const rotate = changing("secrets rotate", { cell, json }, {
  arguments: ({ cell }) => ({ cell: Option.getOrUndefined(cell) }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input, record) {
    const stored = yield* StoredSecrets
    const rotated = yield* withBar((show) =>
      stored.rotate((done, total) => show({ done, total, what: `${done} of ${total} signing secrets` }), record)
    )
    yield* print(rotated, input.json)
    if (rotated.unreadable > 0) {
      return yield* new Refused({
        message: `${rotated.unreadable} signing secrets cannot be decrypted with the keys in SECRETS_KEY; unchanged`
      })
    }
    if (rotated.remaining > 0) {
      return yield* new Refused({
        message: `${rotated.remaining} signing secrets are still under another key: keep it, end the moves that ` +
          "`cells list` shows, and rotate all cells again"
      })
    }
  })
}).pipe(
  Command.withDescription(
    "Encrypt the signing secrets of webhooks with the first key of SECRETS_KEY. Api and worker must have that key " +
      "already; remove the old one once nothing is left to rotate"
  ),
  example("secrets rotate", "With SECRETS_KEY=new,old; a second run rotates 0 and leaves none"),
  withSecretsServices
)

/** The stored signing secrets. */
export const secrets = Command.make("secrets").pipe(
  Command.withDescription("Rotate the encryption of the stored signing secrets"),
  example("secrets rotate", "After a new key was added at the front of SECRETS_KEY"),
  Command.withSubcommands([rotate])
)
