import { closedBreaker } from "@card-rewards/domain/Delivery"
import { IntegratorId } from "@card-rewards/domain/Ids"
import { secretFromBytes } from "@card-rewards/domain/WebhookSignature"
import { Consumer } from "@card-rewards/worker/WebhookDispatcher/Consumer"

const secret = secretFromBytes(new Uint8Array(32))

/** A consumer of an endpoint with some events, each of no reward, which can be sent. */
export const readConsumer = (id: string, events: number): Consumer => {
  const integratorId = IntegratorId.make(id)
  const leased = { integratorId, generation: 1, token: 1n, takenFrom: null, cursor: 0n, ahead: 0n }
  const consumer = new Consumer({ ...leased, breaker: closedBreaker }, 0, [1_000])
  consumer.beginRead(0)
  consumer.add({
    integratorId,
    url: urlOf(id),
    revision: 1,
    breaker: closedBreaker,
    secrets: [secret],
    retries: [],
    readTo: BigInt(events),
    events: Array.from({ length: events }, (_, index) => ({
      event: BigInt(index + 1),
      round: 1,
      attempts: 0,
      reward: null,
      dueAt: 0,
      eventId: `evt_${index}`,
      body: "{}",
      traceparent: null,
      isBlocked: false
    }))
  }, 0)
  return consumer
}

/** The endpoint's address. */
export const urlOf = (id: string): string => `http://${id}/`
