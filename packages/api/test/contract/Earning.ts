import { processAll } from "@card-rewards/testing/EventProcessing"
import { enroll, moveMoney, publish, type Request, type Send, setClock, spend } from "@card-rewards/testing/Requests"
import { Effect } from "effect"

/** A reward of 1234500 units that is claimable at once, and enough money for it. */
export const earn = Effect.fnUntraced(function*(request: Send) {
  const story: ReadonlyArray<Request> = [
    enroll("ann"),
    publish("p", 1, { holdingPeriodDays: 0, categories: [], categoryRates: [] }),
    setClock("2100-01-01T00:00:00.000Z"),
    spend({ occurredAt: "2099-12-02T00:00:00.000Z" }),
    moveMoney("deposits", "d", "1234500")
  ]
  for (const sent of story) yield* request(...sent)
  yield* processAll
})
