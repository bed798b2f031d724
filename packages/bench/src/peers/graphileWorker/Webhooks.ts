import { makeSigner, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { createHmac, createSecretKey } from "node:crypto"
import { Agent, request } from "undici"
import type { Webhook } from "../EventWork.ts"

/** Signs webhooks as the service does and posts them by undici's `request`. Fails unless the response is a 2xx. */
export const poster = (options: { readonly url: string; readonly secret: string; readonly connections: number }) => {
  const dispatcher = new Agent({ connections: options.connections, pipelining: 1 })
  const sign = makeSigner([WebhookSecret.make(options.secret)], (key) => {
    const prepared = createSecretKey(key)
    return (start, body, encoding) =>
      createHmac("sha256", prepared).update(start).update(body).digest(encoding)
  })
  return async ({ body, id }: Webhook): Promise<void> => {
    const timestampSeconds = Math.floor(Date.now() / 1_000)
    const response = await request(options.url, {
      dispatcher,
      method: "POST",
      headers: {
        "content-type": "application/json",
        "user-agent": "card-rewards/1",
        ...sign({ eventId: id, body, timestampSeconds, attempt: 1 })
      },
      body
    })
    await response.body.dump()
    if (response.statusCode < 200 || response.statusCode > 299) throw new Error(`status ${response.statusCode}`)
  }
}
