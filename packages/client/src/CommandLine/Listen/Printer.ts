/** What `card-rewards listen` prints: readable lines, or one JSON object per line. */
import { oneLine } from "@card-rewards/domain/ApiKey"
import { WebhookEventKind } from "@card-rewards/domain/Event"
import { Console, type Effect } from "effect"
import { type ForwardedAttempt, retryPausesMillis } from "./Forwarder.ts"

/** What a session of `listen` begins with. */
export interface SessionStart {
  readonly url: URL
  /** The position in the event log. */
  readonly after: bigint
  /** A secret that was made for this session; undefined where the integrator has given one. */
  readonly newSecret: string | undefined
}

/** What a session has done when it ends. */
export interface SessionEnd {
  /** The position up to which every event was delivered or given up. */
  readonly after: bigint
  readonly delivered: number
  readonly givenUp: number
}

/** Prints the steps of a session of `listen`. */
export interface Printer {
  readonly start: (start: SessionStart) => Effect.Effect<void>
  readonly attempt: (attempt: ForwardedAttempt) => Effect.Effect<void>
  readonly end: (end: SessionEnd) => Effect.Effect<void>
}

/** Readable lines, one for each attempt. */
export const lines: Printer = {
  start: ({ after, newSecret, url }) =>
    Console.log([
      ...(newSecret === undefined ? [] : [`Signing secret: ${newSecret}`]),
      `Forwarding the events after position ${after} to ${shown(url)}. Ctrl-C ends it`
    ].join("\n")),
  attempt: ({ answer, attempt, durationMillis, event, result }) =>
    Console.log(
      `${oneLine(event.kind).padEnd(kindWidth)}  ${oneLine(event.id)} ${answer} in ${durationMillis} ms` +
        next(result, attempt)
    ),
  end: ({ after, delivered, givenUp }) =>
    Console.log(`${delivered} delivered, ${givenUp} given up. To go on from here: --after ${after}`)
}

/** The same as JSON. */
export const jsonLines: Printer = {
  start: ({ after, newSecret, url }) => print({ forwardTo: shown(url), after: `${after}`, secret: newSecret }),
  attempt: ({ answer, attempt, durationMillis, event, result }) =>
    print({
      eventId: event.id,
      kind: event.kind,
      attempt,
      ...(typeof answer === "number" ? { status: answer } : { error: answer }),
      durationMillis,
      result
    }),
  end: (end) => print({ ...end, after: `${end.after}` })
}

const print = (value: object) => Console.log(JSON.stringify(value))

/** Without its query, which may have a password. */
const shown = ({ origin, pathname }: URL): string => `${origin}${pathname}`

const kindWidth = Math.max(...WebhookEventKind.literals.map(({ length }) => length))

const next = (result: ForwardedAttempt["result"], attempt: number): string => {
  if (result === "delivered") return ""
  const pauseMillis = retryPausesMillis[attempt - 1]
  return pauseMillis === undefined
    ? `; given up after ${attempt} attempts, going on with other events`
    : `; attempt ${attempt + 1} in ${pauseMillis / 1_000} s`
}
