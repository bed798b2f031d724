import type { SecretsKey } from "@card-rewards/core/Secrets"
import { Redacted } from "effect"

/** The key that encrypts signing secrets in tests, the same in api and worker. */
export const secretsKeys: ReadonlyArray<SecretsKey> = [Redacted.make(new Uint8Array(32).fill(7))]

/** The same, as the variable `SECRETS_KEY` of a process. */
export const secretsKeyText = Buffer.alloc(32, 7).toString("base64")
