import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { liveEndpointId } from "@card-rewards/core/WebhookEndpoints"
import { WebhookEventKind } from "@card-rewards/domain/Event"
import type { IntegratorId } from "@card-rewards/domain/Ids"
import { Replay } from "@card-rewards/domain/Replay"
import { printTimestamp, Timestamp } from "@card-rewards/domain/Time"
import { Effect, Option, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { changing, inItsCell } from "../Changing.ts"
import { Misused, Refused } from "../Exit.ts"
import { json, print } from "../Output.ts"
import { withReplayServices } from "../Services.ts"
import { integratorId, replayId } from "./Arguments.ts"
import { example } from "./Examples.ts"

const from = Flag.String("from").pipe(
  Flag.withDescription("Events created from this time on, such as 2026-11-01T00:00:00Z, by the integrator's clock"),
  Flag.withSchema(Timestamp)
)
const to = Flag.String("to").pipe(
  Flag.withDescription("Events created before this time; all up to now without it"),
  Flag.withSchema(Timestamp),
  Flag.optional
)
const kinds = Flag.String("kinds").pipe(
  Flag.withDescription("Events of these kinds only, separated by commas, such as reward.claimable,reward.paid"),
  Flag.filterMap(
    (text) => Schema.decodeUnknownOption(Schema.Array(WebhookEventKind))(text.split(",")),
    () => `some of ${WebhookEventKind.literals.join(",")}`
  ),
  Flag.optional
)

const start = changing("replay start", { integratorId, from, to, kinds, json }, {
  arguments: ({ from, integratorId, kinds, to }) => ({
    integratorId,
    from: printTimestamp(from),
    to: Option.getOrUndefined(Option.map(to, printTimestamp)),
    kinds: Option.getOrUndefined(kinds)?.join(",")
  }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input, record) {
    const [to, kinds] = [Option.getOrUndefined(input.to), Option.getOrUndefined(input.kinds)]
    if (to !== undefined && to <= input.from) return yield* new Misused({ message: "--to must be after --from" })
    const request = { from: input.from, ...(to === undefined ? {} : { to }), ...(kinds && { kinds }) }
    const { startReplay } = yield* DeliveryLog
    const replay = yield* startReplay(input.integratorId, yield* endpointOf(input.integratorId), request, record).pipe(
      Effect.catchTag("ReplayRunning", ({ message, replayId }) => new Refused({ message: `${message}: ${replayId}` }))
    )
    yield* print(shown(replay, input.json), input.json)
  })
}).pipe(
  Command.withDescription(
    "Deliver the stored events of a time again to the integrator's webhook endpoint, behind new events"
  ),
  example(
    "replay start acme --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z --kinds reward.claimable,reward.paid",
    "What became claimable or was paid on November 1"
  ),
  withReplayServices
)

const show = Command.make("show", { integratorId, replayId, json }, Effect.fn(function*(input) {
  const { findReplay } = yield* DeliveryLog
  const replay = yield* findReplay(input.integratorId, yield* endpointOf(input.integratorId), input.replayId)
  yield* print(shown(replay, input.json), input.json)
})).pipe(
  Command.withDescription("Show one of the newest 100 replays of the integrator's webhook endpoint"),
  example("replay show acme rpl_2", "Its state is running or done"),
  withReplayServices
)

/** Replays of stored events. */
export const replay = Command.make("replay").pipe(
  Command.withDescription("Deliver stored events again to an integrator's webhook endpoint"),
  example(
    "replay start acme --from 2026-11-01T00:00:00Z",
    "For an integrator whose receiver lost what it got since November 1"
  ),
  Command.withSubcommands([start, show])
)

const endpointOf = Effect.fnUntraced(function*(integratorId: IntegratorId) {
  return (yield* liveEndpointId(integratorId)) ?? (yield* new Refused({
    message: "The integrator has no webhook endpoint"
  }))
})

/** As in the API; in readable lines, kinds as they are typed. */
const shown = (replay: Replay, asJson: boolean) => {
  const { events, from, id, kinds, state, to } = Schema.encodeSync(Replay)(replay)
  return { id, from, to, ...(kinds && { kinds: asJson ? kinds : kinds.join(",") }), state, events }
}
