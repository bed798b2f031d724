import { Clock, Context, Effect, Exit, Option, Tracer } from "effect"
import { Headers, HttpTraceContext } from "effect/http"
import { On } from "./Metrics.ts"

/** A span of a batch is linked to so many of the spans that its work came from. */
const maxLinks = 128

/**
 * The present span as W3C `traceparent`, to be stored with work that is done later, by another process: its span is
 * linked to this one. Null where nothing is traced.
 */
export const traceparent: Effect.Effect<string | null> = Effect.withFiber((fiber) => {
  const span = fiber.getRef(On) ? Context.getOrUndefined(fiber.context, Tracer.ParentSpan) : undefined
  return Effect.succeed(span?.sampled === true ? `00-${span.traceId.padStart(32, "0")}-${span.spanId}-01` : null)
})

/** Where work came from: each `traceparent` that was stored with it. */
export type Origins = () => ReadonlyArray<string | null | undefined>

/**
 * Runs in a span of its own trace, linked to where its work came from; where nothing of it is traced, without a span.
 */
export const linked = (name: string, kind: Tracer.SpanKind, origins: Origins) =>
<A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!fiber.getRef(On)) return work
    const links = linksOf(origins())
    return links.length === 0
      ? Effect.withTracerEnabled(work, false)
      : Effect.withSpan(work, name, { root: true, kind, links, captureStackTrace: false })
  })

/** As {@link linked}, for work that is no effect: gives what ends its span, with attributes. */
export const begin = (name: string, kind: Tracer.SpanKind, origins: ReturnType<Origins>) =>
  Effect.map(Effect.makeSpan(name, { root: true, kind, links: linksOf(origins) }), (span) =>
    (attributes: Readonly<Record<string, string | number>>) =>
      Effect.map(Clock.currentTimeNanos, (now) => {
        for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
        span.end(now, Exit.void)
      }))

interface Step {
  readonly name: string
  span: Tracer.Span | undefined
}

const CurrentStep = Context.Reference<Step | undefined>("@card-rewards/core/Tracing/CurrentStep", {
  defaultValue: () => undefined
})

/**
 * A look for work that goes on again and again: it is not traced until it has {@link found} some, so that an idle
 * process makes no spans. The span then lasts until the step ends, its commit included.
 */
export const step = (name: string) => <A, E, R>(look: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!fiber.getRef(On)) return look
    const current: Step = { name, span: undefined }
    return look.pipe(
      Effect.provideService(CurrentStep, current),
      Effect.withTracerEnabled(false),
      Effect.onExit((exit) => Effect.map(Clock.currentTimeNanos, (now) => current.span?.end(now, exit)))
    )
  })

/** The work that a {@link step} has found, in its span. A transaction that is begun again goes on with the same one. */
export const found = (origins: Origins) => <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const current = fiber.getRef(CurrentStep)
    if (current === undefined) return work
    const begin = Effect.makeSpan(current.name, { root: true, kind: "consumer", links: linksOf(origins()) })
    const span = current.span === undefined ? begin : Effect.succeed(current.span)
    return Effect.flatMap(span, (span) => {
      current.span = span
      return Effect.withParentSpan(work, span, { captureStackTrace: false })
    }).pipe(Effect.withTracerEnabled(true))
  })

const linksOf = (origins: ReadonlyArray<string | null | undefined>): Array<Tracer.SpanLink> =>
  [...new Set(origins)].flatMap((traceparent) =>
    typeof traceparent === "string"
      ? Option.toArray(HttpTraceContext.w3c(Headers.fromRecordUnsafe({ traceparent })))
      : []
  ).slice(0, maxLinks).map((span) => ({ span, attributes: {} }))
