import { type Attempt, makeSigner, type SigningSecrets } from "@card-rewards/domain/WebhookSignature"
import { createHmac } from "node:crypto"

/** The headers of a delivery attempt. */
export const sign = ({ secrets, ...attempt }: Attempt & { readonly secrets: SigningSecrets }) =>
  makeSigner(secrets, (key) => (start, body, encoding) =>
    createHmac("sha256", key).update(start).update(body).digest(encoding))(attempt)
