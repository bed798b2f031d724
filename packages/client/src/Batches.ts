/** Any number of spend events in batches: history that is loaded, or a backlog of one's own. */
import type { SpendEvent } from "@card-rewards/domain/SpendEvent"
import { maxBatchEvents, type SpendEventResult } from "@card-rewards/domain/SpendEventBatch"
import { Effect, Stream } from "effect"

/** An event with its place among those that were given, from 0, and what the service answered. */
export interface Submitted<Event, Result> {
  readonly index: number
  readonly event: Event
  readonly result: Result
}

/** Where to begin, and how large the batches are. */
export interface SubmitAllOptions {
  /** Events to skip, because an earlier call has submitted them: the `index` of its last result, plus 1. */
  readonly from?: number
  /** Events of one batch, at most; 500 when absent, which is the most that the service accepts. */
  readonly batchSize?: number
}

/** The most that the events of a body have, in bytes: for each of 500 it leaves 97 for what surrounds them. */
const maxBytes = 1_000_000

/**
 * Submits events batch by batch, and returns each one's result in their order; one batch at a time, when the consumer
 * needs its results. `submitAll(events, (payload) => api.spendEvents.submitBatch({ payload }))`.
 *
 * Fails with the first batch that fails. What was submitted may be submitted again: go on with `from`, or from the
 * beginning.
 */
export const submitAll = <
  E,
  R,
  E2,
  R2,
  Event extends object = SpendEvent,
  Result extends { readonly status: number } = SpendEventResult
>(
  events: Stream.Stream<Event, E, R>,
  submit: (
    payload: { readonly events: ReadonlyArray<Event> }
  ) => Effect.Effect<{ readonly results: ReadonlyArray<Result> }, E2, R2>,
  { batchSize = maxBatchEvents, from = 0 }: SubmitAllOptions = {}
): Stream.Stream<Submitted<Event, Result>, E | E2, R | R2> =>
  events.pipe(
    Stream.zipWithIndex,
    Stream.drop(from),
    inBatches(Math.min(Math.max(1, batchSize), maxBatchEvents)),
    Stream.mapEffect((batch) =>
      Effect.flatMap(submit({ events: batch.map(([event]) => event) }), ({ results }) =>
        Effect.forEach(batch, ([event, index], place) => {
          const result = results[place]
          return result === undefined
            ? Effect.die(new Error("The service answered fewer results than there were events"))
            : Effect.succeed({ index, event, result })
        }))
    ),
    Stream.flattenIterable
  )

type Indexed<Event> = readonly [event: Event, index: number]

interface Batch<Event> {
  readonly events: ReadonlyArray<Indexed<Event>>
  readonly bytes: number
}

const empty = { events: [], bytes: 0 }

const inBatches = (batchSize: number) =>
<Event extends object, E, R>(
  events: Stream.Stream<Indexed<Event>, E, R>
): Stream.Stream<ReadonlyArray<Indexed<Event>>, E, R> =>
  events.pipe(Stream.mapAccum(
    (): Batch<Event> => empty,
    (batch, event) => {
      const bytes = bytesOf(event[0])
      const isTooLarge = batch.bytes + bytes > maxBytes && batch.events.length > 0
      const before = isTooLarge ? empty : batch
      const events = [...before.events, event]
      const full = isTooLarge ? [batch.events] : []
      // at once: the next event may come much later
      return events.length === batchSize
        ? [empty, [...full, events]] as const
        : [{ events, bytes: before.bytes + bytes }, full] as const
    },
    { onHalt: ({ events }) => events.length > 0 ? [events] : [] }
  ))

const encoder = new TextEncoder()

/** The bytes of the event's JSON, but for its time, which is a number here, and 13 longer as text. */
const bytesOf = (event: object): number => encoder.encode(JSON.stringify(event, printed)).length

const printed = (_: string, value: unknown): unknown => typeof value === "bigint" ? `${value}` : value
