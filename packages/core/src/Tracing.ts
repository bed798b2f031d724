import { Clock, Context, Effect, Exit, Option, References, Tracer } from "effect"
import { Headers, HttpTraceContext } from "effect/http"
import { Enabled } from "./Metrics.ts"

/** The maximum number of links of one span. */
const maxLinks = 128

/**
 * The current span as W3C `traceparent`. It is stored with work that another process does later, whose span is linked
 * to this one. Null without tracing.
 */
export const traceparent: Effect.Effect<string | null> = Effect.withFiber((fiber) => {
  const span = fiber.getRef(Enabled) ? Context.getOrUndefined(fiber.context, Tracer.ParentSpan) : undefined
  return Effect.succeed(span?.sampled === true ? `00-${span.traceId.padStart(32, "0")}-${span.spanId}-01` : null)
})

/**
 * Runs an operation of many requests per second in a span, where its request is traced. `Effect.fn` records the stack
 * of each call, traced or not, which takes 2.6 µs.
 */
export const span = (name: string) => <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(Enabled) && fiber.getRef(References.TracerEnabled)
      ? Effect.withSpan(operation, name, { captureStackTrace: false })
      : operation
  )

/** The `traceparent` of each request that stored a part of the work. */
export type Origins = () => ReadonlyArray<string | null | undefined>

/**
 * Runs `work` in the root span of a new trace, linked to the work's origins. Makes no span where no origin is traced.
 */
export const linked = (name: string, kind: Tracer.SpanKind, origins: Origins) =>
<A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!fiber.getRef(Enabled)) return work
    const links = linksOf(origins())
    return links.length === 0
      ? Effect.withTracerEnabled(work, false)
      : Effect.withSpan(work, name, { root: true, kind, links, captureStackTrace: false })
  })

/** As {@link linked}, for work that is not an effect: starts the span and returns a function that ends it. */
export const begin = (name: string, kind: Tracer.SpanKind, origins: ReturnType<Origins>) =>
  Effect.map(Effect.makeSpan(name, { root: true, kind, links: linksOf(origins) }), (span) =>
    (attributes: Readonly<Record<string, string | number>>) =>
      Effect.map(Clock.currentTimeNanos, (now) => {
        for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
        span.end(now, Exit.void)
      }))

interface Deferred {
  readonly name: string
  span: Tracer.Span | undefined
}

const DeferredSpan = Context.Reference<Deferred | undefined>("@card-rewards/core/Tracing/DeferredSpan", {
  defaultValue: () => undefined
})

/**
 * Traces a step that looks for work again and again. Its span starts when the step calls {@link startDeferred}, so that
 * an idle process creates no spans, and ends with the step, after its commit.
 */
export const deferSpan = (name: string) => <A, E, R>(step: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!fiber.getRef(Enabled)) return step
    const current: Deferred = { name, span: undefined }
    return step.pipe(
      Effect.provideService(DeferredSpan, current),
      Effect.withTracerEnabled(false),
      Effect.onExit((exit) => Effect.map(Clock.currentTimeNanos, (now) => current.span?.end(now, exit)))
    )
  })

/** Runs `work` in the span of {@link deferSpan}, and starts it. A retry of the transaction continues the same span. */
export const startDeferred = (origins: Origins) => <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const current = fiber.getRef(DeferredSpan)
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
