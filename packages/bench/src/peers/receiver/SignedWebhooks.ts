import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto"

/** Verifies the signatures of webhooks by the secrets of their integrators, and notes what they tell. */
export class SignedWebhooks {
  /** Webhooks without a valid `x-service-signature`. */
  refused = 0
  /** Webhooks whose transaction had one before. */
  repeated = 0
  /** What the webhooks say was earned, in smallest units. */
  earned = 0
  readonly #keys: ReadonlyMap<string, KeyObject>
  readonly #transactions = new Set<string>()

  /** `secrets` are signing secrets by integrator. */
  constructor(secrets: Readonly<Record<string, string>>) {
    this.#keys = new Map(
      Object.entries(secrets).map(([integrator, secret]) => [integrator, createSecretKey(Buffer.from(secret))])
    )
  }

  /** Transactions with a valid webhook. */
  get distinct(): number {
    return this.#transactions.size
  }

  /** Returns whether the signature is valid. `head` and `body` are as they arrived, one byte a character. */
  add(head: string, body: string): boolean {
    const key = this.#keys.get(fieldOf(body, "integratorId"))
    const [, seconds = "", tag = ""] = /\r\nx-service-signature: ?t=(\d+),v1=([0-9a-f]{64})/i.exec(head) ?? []
    const isValid = key !== undefined && tag !== "" && timingSafeEqual(
      createHmac("sha256", key).update(`${seconds}.`).update(body, "latin1").digest(),
      Buffer.from(tag, "hex")
    )
    if (!isValid) {
      this.refused++
      return false
    }
    const transaction = Buffer.from(fieldOf(body, "externalTransactionId"), "latin1").toString("latin1")
    if (this.#transactions.has(transaction)) this.repeated++
    this.#transactions.add(transaction)
    this.earned += Number(fieldOf(body, "earned"))
    return true
  }
}

/** The first text of this name in a JSON document; the values that are asked for have no escapes. */
const fieldOf = (body: string, name: string): string => {
  const start = `"${name}":"`
  const from = body.indexOf(start)
  return from < 0 ? "" : body.slice(from + start.length, body.indexOf("\"", from + start.length))
}
