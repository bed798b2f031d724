/** `npm run demo`: starts a temporary service, runs one example from enrollment to refund, and prints each step. */
import { CardRewardsSandbox } from "@card-rewards/client/CardRewards"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Console, Effect, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { receiveWebhooks } from "./demo/Receiver.ts"
import { ServiceEnded, startService } from "./demo/Service.ts"
import { playStory } from "./demo/Story.ts"

const demo = Effect.gen(function*() {
  yield* Console.log("Starting a temporary service …")
  const service = yield* startService
  const receiver = yield* receiveWebhooks
  const story = playStory(service.integratorId, receiver).pipe(
    Effect.provide(CardRewardsSandbox.layer({ baseUrl: service.baseUrl, apiKey: Redacted.make(service.apiKey) }))
  )
  yield* Effect.raceFirst(story, service.ended)
}).pipe(Effect.scoped, Effect.provide(FetchHttpClient.layer))

demo.pipe(
  Effect.tapCause((cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.void
    const error = Cause.squash(cause)
    return Console.error(error instanceof ServiceEnded ? error.message : Cause.pretty(cause))
  }),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
