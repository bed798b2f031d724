import { WebhookEventKind } from "@card-rewards/domain/Event"
import { LogNumber } from "@card-rewards/domain/Pagination"
import { secretFromBytes, WebhookSecret } from "@card-rewards/domain/WebhookSignature"
import { Config, Console, Effect, Option, Redacted, Schedule, Schema, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { randomBytes } from "node:crypto"
import { follow } from "../Pages.ts"
import { connectionFlags, connectionOf, httpUrl } from "./Connection.ts"
import { type EventLog, makeEventLog } from "./EventLog.ts"
import { examples } from "./Examples.ts"
import { Misused, type Refused } from "./Exit.ts"
import { type ForwardedAttempt, forwardPage } from "./Listen/Forwarder.ts"
import { jsonLines, lines } from "./Listen/Printer.ts"
import type { ServiceAway } from "./Reader.ts"

/** The pause after a read that found no new event. */
const idleMillis = 500

/** The pause between reads while the service does not answer. */
const awayPauseMillis = 1_000

const forwardTo = Flag.String("forward-to").pipe(
  Flag.withDescription("Where to post the events, such as http://localhost:8080/webhooks")
)

const kinds = Flag.String("kinds").pipe(
  Flag.withDescription("Only these kinds of events, separated by commas; reward.* and vault.* stand for several"),
  Flag.filterMap((text) => Option.fromUndefinedOr(filterOf(text)), () => `some of ${WebhookEventKind.literals.join()}`),
  Flag.optional
)

const after = Flag.String("after").pipe(
  Flag.withDescription("Begin after this position of the event log, which an earlier session has printed"),
  Flag.filterMap(Schema.decodeOption(LogNumber), () => "a position that an earlier session has printed, such as 12"),
  Flag.optional
)

const fromStart = Flag.Boolean("from-start").pipe(
  Flag.withDescription("Begin with the first event of the log; without it and --after, with the next new event"),
  Flag.withDefault(false)
)

const secret = Flag.Redacted("secret").pipe(
  Flag.withDescription("The signing secret; by default CARD_REWARDS_WEBHOOK_SECRET, or a new one, which is printed"),
  Flag.withFallbackConfig(Config.Redacted("CARD_REWARDS_WEBHOOK_SECRET")),
  Flag.optional
)

const json = Flag.Boolean("json").pipe(Flag.withDescription("Print a JSON object per line"), Flag.withDefault(false))

/** `card-rewards listen`. */
export const listen = Command.make(
  "listen",
  { forwardTo, kinds, after, fromStart, secret, json, ...connectionFlags },
  Effect.fn(function*(flags) {
    const connection = yield* connectionOf(flags)
    const url = yield* httpUrl("--forward-to", flags.forwardTo)
    const secret = yield* secretOf(flags.secret)
    if (flags.fromStart && Option.isSome(flags.after)) {
      return yield* new Misused({ message: "--after and --from-start exclude each other" })
    }
    const log = untilAnswered(yield* makeEventLog(connection))
    const start = flags.fromStart ? 0n : Option.getOrUndefined(flags.after) ?? (yield* log.end)
    const session = { after: start, delivered: 0, givenUp: 0 }
    const printer = flags.json ? jsonLines : lines
    const report = (attempt: ForwardedAttempt) => {
      if (attempt.result === "delivered") session.delivered++
      if (attempt.result === "given up") session.givenUp++
      return printer.attempt(attempt)
    }
    const forward = forwardPage({ url, secret, report })
    const isWanted = Option.getOrElse(flags.kinds, () => () => true)
    yield* printer.start({ url, after: start, newSecret: Option.isNone(flags.secret) ? secret : undefined })
    yield* follow(log.read, { after: start, idleMillis }).pipe(
      Stream.runForEach(({ events, next }) =>
        Effect.andThen(
          forward(events.filter(({ kind }) => isWanted(kind))),
          Effect.sync(() => void (session.after = next))
        )
      ),
      Effect.ensuring(Effect.suspend(() => printer.end(session)))
    )
  })
).pipe(
  Command.withDescription(
    "Follow the event log, and post each event to a local address as a signed webhook; no public endpoint is needed. " +
      "An event that is not answered 2xx is posted four times at most"
  ),
  Command.withShortDescription("Post new events to a local address, as signed webhooks"),
  examples(
    ["listen --forward-to http://localhost:8080/webhooks", "New events, signed with a secret that is printed"],
    ["listen --forward-to localhost:8080 --kinds reward.*,vault.low_funds --from-start", "All events of some kinds"]
  )
)

/** Whether `--kinds` names a kind; undefined where a part of it names no kind. */
const filterOf = (text: string): ((kind: string) => boolean) | undefined => {
  const parts = text.split(",")
  const matches = (part: string, kind: string) =>
    part.endsWith(".*") ? kind.startsWith(part.slice(0, -1)) : kind === part
  return parts.every((part) => WebhookEventKind.literals.some((kind) => matches(part, kind)))
    ? (kind) => parts.some((part) => matches(part, kind))
    : undefined
}

const secretOf = (given: Option.Option<Redacted.Redacted>): Effect.Effect<WebhookSecret, Misused> =>
  Option.match(given, {
    onNone: () => Effect.sync(() => secretFromBytes(randomBytes(32))),
    onSome: (secret) =>
      Schema.decodeUnknownEffect(WebhookSecret)(Redacted.value(secret)).pipe(
        Effect.mapError(() => new Misused({ message: "The signing secret must be service_whsec_ and 64 hex digits" }))
      )
  })

/** The same log, whose reads go on until the service answers. Each outage is reported once, on stderr. */
const untilAnswered = ({ end, read }: EventLog): EventLog => {
  let isAway = false
  const begin = ({ message }: ServiceAway) =>
    Effect.suspend(() => {
      if (isAway) return Effect.void
      isAway = true
      return Console.error(`${message}. Trying again until the service answers`)
    })
  const finish = Effect.suspend(() => {
    if (!isAway) return Effect.void
    isAway = false
    return Console.error("The service answers again")
  })
  const patiently = <A>(reading: Effect.Effect<A, ServiceAway | Refused>) =>
    reading.pipe(
      Effect.tapErrorTag("ServiceAway", begin),
      Effect.retry({ while: ({ _tag }) => _tag === "ServiceAway", schedule: Schedule.spaced(awayPauseMillis) }),
      Effect.tap(finish)
    )
  return { read: (query) => patiently(read(query)), end: patiently(end) }
}
