import { type LinkedEntry, LinkedList, unlisted } from "@card-rewards/core/Batcher/LinkedList"
import type { InvalidRequest, Unavailable } from "@card-rewards/domain/Errors"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Context, Duration, Effect, Layer } from "effect"
import type { HttpServerRequest } from "effect/http"
import type { Readable } from "node:stream"
import { maxChunks } from "../Server/Request.ts"
import { RequestTurns } from "../Server/RequestTurns.ts"
import { invalid, textOf, uncompressed } from "./BodyText.ts"
import { OwnerShares } from "./OwnerShares.ts"
import * as Refusals from "./Refusals.ts"

/** Largest request body, in bytes (decisions, section 3). */
export const maxBytes = 256 * 1024

/** The same, of a batch of spend events. */
export const maxBatchBytes = 1_048_576

/** How long a body may take to arrive after its request's headers. */
export const deadlineMillis = 10_000

/** How often bodies past their deadline are refused. */
const checkEveryMillis = 1_000

/** Bodies that have not arrived whole, or wait for their turn, at most; one integrator has a quarter. */
const maxIncomplete = 4_096

/** Their bytes, at most; one integrator has a quarter. */
const maxIncompleteBytes = 64 * 1_048_576

/** Whole bodies up to this size count nothing. */
const smallBytes = 16_384

/** Bytes of larger ones whose requests are not answered, at most; one integrator has a quarter. */
const maxWholeBytes = 64 * 1_048_576

/**
 * Reads request bodies. Whole ones are decoded, and their requests go on, in the turns of their integrators: a client
 * may hold back the last bytes of many. Until then a body counts against the limits of incomplete bodies and its
 * integrator's quarter of them, in number and in bytes, and not as a request in flight. A large one then counts, by its
 * bytes, until the request's fiber ends.
 */
export class RequestBodies extends Context.Service<RequestBodies, {
  /** The JSON text of a request's body, not parsed yet. */
  readonly read: (
    request: HttpServerRequest.HttpServerRequest,
    integratorId: string,
    options: { readonly clock: Clock.Clock; readonly maxBytes: number }
  ) => Effect.Effect<string, InvalidRequest | Unavailable>
}>()("@card-rewards/api/RequestBodies") {
  static readonly layer: Layer.Layer<RequestBodies> = Layer.effect(
    RequestBodies,
    Effect.gen(function*() {
      const arriving = new Arriving()
      const whole = new OwnerShares(maxWholeBytes)
      /** Counts a large body, unless that is beyond the limit. */
      const keep = (text: string, integratorId: string) =>
        Effect.withFiber<string, Unavailable>((fiber) => {
          // at most that many bytes, as V8 keeps it
          const bytes = 2 * text.length
          if (!whole.take(integratorId, bytes)) return Refusals.busy
          fiber.addObserver(() => whole.giveBack(integratorId, bytes))
          return Effect.succeed(text)
        })
      yield* Effect.sleep(Duration.millis(checkEveryMillis)).pipe(
        Effect.andThen(Effect.map(Clock.monotonicTimeNanos, (now) => arriving.refuseOverdue(now))),
        Effect.forever,
        Effect.forkScoped
      )
      return RequestBodies.of({
        read: (request, integratorId, { clock, maxBytes }) => {
          const { "content-type": contentType, expect } = request.headers
          if (contentType === undefined || !isJson(contentType)) {
            return invalid("expected the content type application/json")
          }
          if (isCoded(request)) return invalid(uncompressed)
          const length = announcedBytes(request)
          if (length > maxBytes) return invalid(tooLarge(maxBytes))
          const message = NodeHttpServerRequest.toIncomingMessage(request)
          // Node leaves it to the service whether a client that asks first may send its body; in HTTP/1.0 none asks
          if (expect !== undefined && message.httpVersion !== "1.0") {
            NodeHttpServerRequest.toServerResponse(request).writeContinue()
          }
          const received = receive(message, integratorId, arriving, {
            startedNanos: clock.monotonicTimeNanosUnsafe(),
            length,
            maxBytes
          })
          return length > 0 && length <= smallBytes
            ? received
            : Effect.flatMap(received, (text) =>
              text.length > smallBytes ? keep(text, integratorId) : Effect.succeed(text))
        }
      })
    })
  )
}

/** The length of a body that is not sent in chunks; 0 where there is none. */
export const announcedBytes = ({ headers }: HttpServerRequest.HttpServerRequest): number =>
  Number(headers["content-length"] ?? 0)

/** In time proportional to the header's length: no two adjacent parts of the pattern match the same characters. */
const isJson = (contentType: string): boolean =>
  contentType === "application/json" ||
  /^application\/json\s*(?:;\s*(?:charset\s*=\s*"?utf-?8"?\s*(?:;\s*)?)?)?$/i.test(contentType)

/** Whether the body is sent in another coding than chunks. Node hands over what `gzip, chunked` has in the chunks. */
const isCoded = ({ headers }: HttpServerRequest.HttpServerRequest): boolean => {
  const { "content-encoding": content = "identity", "transfer-encoding": transfer = "chunked" } = headers
  return content.toLowerCase() !== "identity" || transfer.toLowerCase() !== "chunked"
}

const tooLarge = (maxBytes: number) => `expected a body of at most ${maxBytes} bytes`

/** A body that has not arrived whole. */
interface Incomplete extends LinkedEntry<Incomplete> {
  readonly startedNanos: bigint
  readonly refuse: (refusal: Effect.Effect<never, InvalidRequest | Unavailable>) => void
}

/** The bodies that are not decoded. */
class Arriving {
  readonly count = new OwnerShares(maxIncomplete)
  readonly bytes = new OwnerShares(maxIncompleteBytes)
  /** The bodies that have not arrived whole, in order of their start. */
  readonly bodies = new LinkedList<Incomplete>()
  readonly turns = new RequestTurns()

  refuseOverdue(nowNanos: bigint): void {
    const latest = nowNanos - BigInt(deadlineMillis) * 1_000_000n
    for (const { refuse, startedNanos } of this.bodies) {
      if (startedNanos > latest) return
      refuse(notInTime)
    }
  }
}

/** What has arrived of a body. */
class Received {
  size = 0
  private bytes: Buffer = noBytes
  private chunks = 0
  private readonly limit: OwnerShares
  private readonly integratorId: string
  private readonly expected: Expected

  constructor(limit: OwnerShares, integratorId: string, expected: Expected) {
    this.limit = limit
    this.integratorId = integratorId
    this.expected = expected
  }

  get text(): Effect.Effect<string, InvalidRequest> {
    return textOf(this.bytes.subarray(0, this.size))
  }

  /** Adds a chunk, unless the body is refused with it. */
  add(chunk: Buffer): Effect.Effect<never, InvalidRequest | Unavailable> | undefined {
    const { length, maxBytes } = this.expected
    const end = this.size + chunk.byteLength
    if (++this.chunks > maxChunks) return invalid(`expected a body of at most ${maxChunks} chunks`)
    if (end > maxBytes) return invalid(tooLarge(maxBytes))
    if (end > this.bytes.byteLength) {
      const capacity = Math.min(Math.max(end, 2 * this.bytes.byteLength), length > 0 ? length : maxBytes)
      if (!this.limit.take(this.integratorId, capacity - this.bytes.byteLength)) return Refusals.busy
      if (end === length && this.size === 0) this.bytes = chunk
      else this.grow(capacity)
    }
    if (this.bytes !== chunk) chunk.copy(this.bytes, this.size)
    this.size = end
    return undefined
  }

  /** Gives back what the body counts. */
  release(): void {
    this.limit.giveBack(this.integratorId, this.bytes.byteLength)
  }

  /** A buffer for each chunk would take hundreds of bytes more than the chunk, which may be a single byte. */
  private grow(capacity: number): void {
    const larger = Buffer.allocUnsafeSlow(capacity)
    this.bytes.copy(larger, 0, 0, this.size)
    this.bytes = larger
  }
}

/** How long a body is, 0 where its request has no length, and how long it may be. */
interface Expected {
  readonly length: number
  readonly maxBytes: number
}

/**
 * The text of a body, straight from Node's stream: through Effect's reader a short body costs as much processor time
 * as the rest of its request.
 */
const receive = (
  message: Readable,
  integratorId: string,
  arriving: Arriving,
  expected: Expected & { readonly startedNanos: bigint }
) =>
  Effect.callback<string, InvalidRequest | Unavailable>((resume) => {
    if (!arriving.count.take(integratorId)) return resume(Refusals.busy)
    const received = new Received(arriving.bytes, integratorId, expected)
    const stopReading = () => {
      arriving.bodies.delete(body)
      message.off("data", onData).off("end", onEnd).off("error", onClose).off("close", onClose)
    }
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      stopReading()
      arriving.count.giveBack(integratorId)
      received.release()
    }
    const body: Incomplete = {
      ...unlisted,
      startedNanos: expected.startedNanos,
      refuse: (refusal) => {
        message.pause()
        release()
        resume(refusal)
      }
    }
    const onData = (chunk: Buffer) => {
      const refusal = received.add(chunk)
      if (refusal !== undefined) body.refuse(refusal)
      else if (received.size === expected.length) onEnd()
    }
    const onEnd = () => {
      stopReading()
      const start = () => {
        release()
        resume(received.text)
      }
      const hasTurn = arriving.turns.run({ owner: () => integratorId, isClosed: () => isReleased, start })
      if (!hasTurn) body.refuse(Refusals.busy)
    }
    const onClose = () => body.refuse(invalid(unreadable))
    arriving.bodies.add(body)
    message.on("data", onData).on("end", onEnd).on("error", onClose).on("close", onClose)
    return Effect.sync(release)
  })

const noBytes = Buffer.alloc(0)

const unreadable = "the body could not be read"

const notInTime = invalid(`the body did not arrive within ${deadlineMillis / 1_000} s`)
