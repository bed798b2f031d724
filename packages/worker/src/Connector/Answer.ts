import type { Dispatcher } from "undici"
import { ConnectorError, type ConnectorReason } from "./ConnectorError.ts"

/** How much of an answer's body is read and kept (decisions, section 7). */
export const maxBodyBytes = 4096

/** What the receiver answered. A redirect is a status like any other. */
export interface Answer {
  readonly status: number
  /** Of a `retry-after` header in either form; 0 for a date gone by. */
  readonly retryAfterSeconds?: number
  /** The beginning of the body, at most 4 KiB of it; what is not UTF-8, and NUL, became U+FFFD. */
  readonly bodySnippet: string
}

export interface CollectorOptions {
  /** Called at most once. */
  readonly done: (outcome: Answer | ConnectorError) => void
  readonly nowMillis: () => number
  /** The whole attempt; what is known then is the outcome. */
  readonly withinMillis: number
}

/**
 * Collects one answer from undici's callbacks.
 *
 * `abort` drops the connection, or, while it is still being made, the request. As soon as there is a status, the status is
 * what counts, and the body only decorates it.
 */
export class AnswerCollector implements Dispatcher.DispatchHandler {
  private controller: Dispatcher.DispatchController | undefined
  private head: { readonly status: number; readonly retryAfter: string | undefined } | undefined
  private readonly chunks: Array<Buffer> = []
  private bytes = 0
  private finished = false
  private readonly options: CollectorOptions
  private readonly late: NodeJS.Timeout

  constructor(options: CollectorOptions) {
    this.options = options
    // @effect-diagnostics-next-line globalTimers:off -- one for each request: a fiber costs several times as much
    this.late = setTimeout(() => this.finishAndAbort("timeout"), options.withinMillis)
  }

  abort(): void {
    this.finished = true
    clearTimeout(this.late)
    this.controller?.abort(new Error("no more is wanted"))
  }

  private soFar(): Answer | undefined {
    if (this.head === undefined) return undefined
    const retryAfterSeconds = parseRetryAfter(this.head.retryAfter, this.options.nowMillis())
    return {
      status: this.head.status,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      bodySnippet: this.bytes === 0 ? "" : utf8.decode(Buffer.concat(this.chunks)).replaceAll("\0", "\ufffd")
    }
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    if (this.finished) this.abort()
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: { readonly "retry-after"?: string }
  ): void {
    // 1xx are announcements; the answer comes after them.
    if (status >= 200) this.head = { status, retryAfter: headers["retry-after"] }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.finished) return
    const kept = chunk.subarray(0, maxBodyBytes - this.bytes)
    // A copy, so that 4 KiB do not hold on to the socket's whole buffer.
    this.chunks.push(Buffer.from(kept))
    this.bytes += chunk.length
    if (this.bytes <= maxBodyBytes) return
    this.finishAndAbort("protocol")
  }

  onResponseEnd(): void {
    this.finish(this.soFar() ?? ConnectorError.because("protocol"))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.finish(this.soFar() ?? ConnectorError.from(error))
  }

  private finishAndAbort(reason: ConnectorReason): void {
    this.finish(this.soFar() ?? ConnectorError.because(reason))
    this.abort()
  }

  private finish(outcome: Answer | ConnectorError): void {
    if (this.finished) return
    this.finished = true
    clearTimeout(this.late)
    this.options.done(outcome)
  }
}

const utf8 = new TextDecoder()

const parseRetryAfter = (value: string | undefined, nowMillis: number): number | undefined => {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  // RFC 9110, section 5.6.7: the only form of a date that is still written.
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return undefined
  const atMillis = Date.parse(value)
  return Number.isNaN(atMillis) ? undefined : Math.max(0, Math.ceil((atMillis - nowMillis) / 1000))
}
