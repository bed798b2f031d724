import type { Dispatcher } from "undici"
import { ConnectorError } from "./ConnectorError.ts"

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

/**
 * Collects one answer from undici's callbacks, calling `done` at most once.
 *
 * `abort` drops the connection, or, while it is still being made, the request. `soFar` is the answer known at that
 * moment: as soon as there is a status, the status is what counts, and the body only decorates it.
 */
export class AnswerCollector implements Dispatcher.DispatchHandler {
  private controller: Dispatcher.DispatchController | undefined
  private head: { readonly status: number; readonly retryAfter: string | undefined } | undefined
  private readonly chunks: Array<Buffer> = []
  private bytes = 0
  private finished = false
  private readonly done: (outcome: Answer | ConnectorError) => void
  private readonly nowMillis: () => number

  constructor(done: (outcome: Answer | ConnectorError) => void, nowMillis: () => number) {
    this.done = done
    this.nowMillis = nowMillis
  }

  abort(): void {
    this.finished = true
    this.controller?.abort(new Error("no more is wanted"))
  }

  soFar(): Answer | undefined {
    if (this.head === undefined) return undefined
    const retryAfterSeconds = parseRetryAfter(this.head.retryAfter, this.nowMillis())
    return {
      status: this.head.status,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      bodySnippet: new TextDecoder().decode(Buffer.concat(this.chunks)).replaceAll("\0", "\ufffd")
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
    this.finish(this.soFar() ?? ConnectorError.because("protocol"))
    this.abort()
  }

  onResponseEnd(): void {
    this.finish(this.soFar() ?? ConnectorError.because("protocol"))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.finish(this.soFar() ?? ConnectorError.from(error))
  }

  private finish(outcome: Answer | ConnectorError): void {
    if (this.finished) return
    this.finished = true
    this.done(outcome)
  }
}

const parseRetryAfter = (value: string | undefined, nowMillis: number): number | undefined => {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  // RFC 9110, section 5.6.7: the only form of a date that is still written.
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return undefined
  const atMillis = Date.parse(value)
  return Number.isNaN(atMillis) ? undefined : Math.max(0, Math.ceil((atMillis - nowMillis) / 1000))
}
