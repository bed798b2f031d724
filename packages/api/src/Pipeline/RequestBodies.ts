import { type LinkedEntry, LinkedList, unlisted } from "@card-rewards/core/Batcher/LinkedList"
import { InvalidRequest, type Unavailable } from "@card-rewards/domain/Errors"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Context, Duration, Effect, Layer } from "effect"
import type { HttpServerRequest } from "effect/http"
import { isUtf8 } from "node:buffer"
import type { Readable } from "node:stream"
import { maxChunks } from "../Server/Request.ts"
import * as Refusals from "./Refusals.ts"
import { SharedLimit } from "./SharedLimit.ts"

/** Largest request body, in bytes (decisions, section 3). */
export const maxBytes = 256 * 1024

/** The same, of a batch of spend events. */
export const maxBatchBytes = 1_048_576

/** How long a body may take to arrive after its request's headers. */
export const deadlineMillis = 10_000

/** How often bodies past their deadline are refused. */
const checkEveryMillis = 1_000

/** Bodies that have not arrived whole, at most; one integrator has a quarter. */
const maxIncomplete = 4_096

/** Bytes of bodies that have not arrived whole, at most; one integrator has a quarter. */
const maxIncompleteBytes = 64 * 1_048_576

/** Whole bodies up to this size count nothing. */
const smallBytes = 16_384

/** Bytes of larger ones whose requests are not answered, at most; one integrator has a quarter. */
const maxWholeBytes = 64 * 1_048_576

/**
 * Reads request bodies. Until it is complete, a body counts against the limits of incomplete bodies and its
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
  static readonly layer = (options: { readonly deadlineMillis?: number } = {}): Layer.Layer<RequestBodies> =>
    Layer.effect(RequestBodies, Effect.gen(function*() {
      const arriving = new Arriving(options.deadlineMillis ?? deadlineMillis)
      const whole = new SharedLimit(maxWholeBytes)
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
          const { "content-length": length, "content-type": contentType, expect } = request.headers
          if (contentType === undefined || !isJson(contentType)) {
            return invalid("expected the content type application/json")
          }
          if (Number(length ?? 0) > maxBytes) return invalid(tooLarge(maxBytes))
          const message = NodeHttpServerRequest.toIncomingMessage(request)
          // Node leaves it to the service whether a client that asks first may send its body; in HTTP/1.0 none asks
          if (expect !== undefined && message.httpVersion !== "1.0") {
            NodeHttpServerRequest.toServerResponse(request).writeContinue()
          }
          const received = receive(message, integratorId, arriving, {
            startedNanos: clock.monotonicTimeNanosUnsafe(),
            length: Number(length),
            maxBytes
          })
          return Number(length) <= smallBytes
            ? received
            : Effect.flatMap(received, (text) =>
              text.length > smallBytes ? keep(text, integratorId) : Effect.succeed(text))
        }
      })
    }))
}

const notReceived = (message: string) => new InvalidRequest({ part: "body", message })

const invalid = (message: string) => Effect.fail(notReceived(message))

/** In time proportional to the header's length: no two adjacent parts of the pattern match the same characters. */
const isJson = (contentType: string): boolean =>
  contentType === "application/json" ||
  /^application\/json\s*(?:;\s*(?:charset\s*=\s*"?utf-?8"?\s*(?:;\s*)?)?)?$/i.test(contentType)

const tooLarge = (maxBytes: number) => `expected a body of at most ${maxBytes} bytes`

/** A body that has not arrived whole. */
interface Incomplete extends LinkedEntry<Incomplete> {
  readonly startedNanos: bigint
  readonly refuse: (refusal: Effect.Effect<never, InvalidRequest | Unavailable>) => void
}

/** The bodies that have not arrived whole, in order of their start. */
class Arriving {
  readonly deadlineMillis: number
  readonly count = new SharedLimit(maxIncomplete)
  readonly bytes = new SharedLimit(maxIncompleteBytes)
  readonly bodies = new LinkedList<Incomplete>()

  constructor(deadlineMillis: number) {
    this.deadlineMillis = deadlineMillis
  }

  refuseOverdue(nowNanos: bigint): void {
    const latest = nowNanos - BigInt(this.deadlineMillis) * 1_000_000n
    for (const { refuse, startedNanos } of this.bodies) {
      if (startedNanos > latest) return
      refuse(notInTime(this.deadlineMillis))
    }
  }
}

/**
 * The text of a body, straight from Node's stream: through Effect's reader a short body costs as much processor time
 * as the rest of its request.
 */
const receive = (
  message: Readable,
  integratorId: string,
  arriving: Arriving,
  { length, maxBytes, startedNanos }: {
    readonly length: number
    readonly maxBytes: number
    readonly startedNanos: bigint
  }
) =>
  Effect.callback<string, InvalidRequest | Unavailable>((resume) => {
    if (!arriving.count.take(integratorId)) return resume(Refusals.busy)
    // a buffer for each chunk would take hundreds of bytes more than the chunk, which may be a single byte
    let bytes = noBytes
    let size = 0
    let chunks = 0
    /** Makes room for so many bytes, and counts it. */
    const grow = (needed: number): boolean => {
      const capacity = Math.min(Math.max(needed, 2 * bytes.byteLength), length > 0 ? length : maxBytes)
      if (!arriving.bytes.take(integratorId, capacity - bytes.byteLength)) return false
      const larger = Buffer.allocUnsafeSlow(capacity)
      bytes.copy(larger, 0, 0, size)
      bytes = larger
      return true
    }
    const stop = () => {
      if (!arriving.bodies.delete(body)) return
      message.off("data", onData).off("end", onEnd).off("error", onClose).off("close", onClose)
      arriving.count.giveBack(integratorId)
      arriving.bytes.giveBack(integratorId, bytes.byteLength)
    }
    const body: Incomplete = {
      ...unlisted,
      startedNanos,
      refuse: (refusal) => {
        message.pause()
        stop()
        resume(refusal)
      }
    }
    const onData = (chunk: Buffer) => {
      if (size === 0 && chunk.byteLength === length) {
        stop()
        return resume(textOf(chunk))
      }
      if (++chunks > maxChunks) return body.refuse(invalid(`expected a body of at most ${maxChunks} chunks`))
      const end = size + chunk.byteLength
      if (end > maxBytes) return body.refuse(invalid(tooLarge(maxBytes)))
      if (end > bytes.byteLength && !grow(end)) return body.refuse(Refusals.busy)
      chunk.copy(bytes, size)
      size = end
    }
    const onEnd = () => {
      stop()
      resume(textOf(bytes.subarray(0, size)))
    }
    const onClose = () => body.refuse(invalid(unreadable))
    arriving.bodies.add(body)
    message.on("data", onData).on("end", onEnd).on("error", onClose).on("close", onClose)
    return Effect.sync(stop)
  })

const noBytes = Buffer.alloc(0)

const unreadable = "the body could not be read"

const notInTime = (millis: number) => invalid(`the body did not arrive within ${millis / 1_000} s`)

/** Levels of a body, at most. No described body has more than 6; reading a deep one may exhaust the stack. */
const maxDepth = 64

/**
 * Keys of an object, at most. No described one has more than 20; one of 90,000, which is 1 MiB, blocked the event loop
 * for 0.25 s.
 */
const maxKeys = 2_000

const decoder = new TextDecoder()

const textOf = (bytes: Uint8Array): Effect.Effect<string, InvalidRequest> => {
  if (bytes.byteLength === 0) return invalid("expected a JSON body")
  if (!isUtf8(bytes)) return invalid("expected JSON in UTF-8")
  const excess = excessOf(bytes)
  return excess === undefined ? Effect.succeed(decoder.decode(bytes)) : invalid(`expected JSON of at most ${excess}`)
}

/** The keys of the objects that are open, by depth. */
const keys = new Uint32Array(maxDepth + 1)

/** The limit of nesting or keys that a JSON text exceeds. Brackets, braces and colons within strings do not count. */
const excessOf = (json: Uint8Array): string | undefined => {
  let depth = 0
  let inString = false
  keys[0] = 0
  for (let at = 0; at < json.byteLength; at++) {
    const byte = json[at]
    if (inString) {
      if (byte === backslash) at++
      else if (byte === quote) inString = false
    } else if (byte === quote) inString = true
    else if (byte === openBracket || byte === openBrace) {
      if (++depth > maxDepth) return `${maxDepth} levels`
      keys[depth] = 0
    } else if (byte === closeBracket || byte === closeBrace) depth = Math.max(0, depth - 1)
    else if (byte === colon) {
      const count = (keys[depth] ?? 0) + 1
      if (count > maxKeys) return `${maxKeys} keys in an object`
      keys[depth] = count
    }
  }
  return undefined
}

const [quote, colon, backslash, openBracket, closeBracket, openBrace, closeBrace] = [
  0x22,
  0x3a,
  0x5c,
  0x5b,
  0x5d,
  0x7b,
  0x7d
]
