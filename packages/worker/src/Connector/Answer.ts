import { maxAnswerBytes } from "@card-rewards/domain/Delivery"
import type { Dispatcher } from "undici"
import { ConnectorError, type ConnectorReason } from "./ConnectorError.ts"

/** Interim (1xx) responses to one request, at most: without end, they would take all of the process's time. */
const maxInterim = 16

/** The receiver's answer. Redirects are not followed: their status is the result. */
export interface Answer {
  readonly status: number
  /** From a `retry-after` header in either form; 0 for a date in the past. */
  readonly retryAfterSeconds?: number
  /** The first {@link maxAnswerBytes} of the body. Bytes that are not UTF-8, and NUL, are replaced by U+FFFD. */
  readonly bodySnippet: string
}

export interface CollectorOptions {
  /** Called at most once. */
  readonly onDone: (outcome: Answer | ConnectorError) => void
  /** Called once when undici has done with the request, also where it is aborted; whether with its whole answer. */
  readonly onReleased: (isWhole: boolean) => void
  readonly nowMillis: () => number
  /** Timeout of the whole attempt. A status that has arrived by then is the result. */
  readonly timeoutMillis: number
}

/**
 * Collects one answer from undici's callbacks. Once a status has arrived, a later error or timeout does not change the
 * result, and only cuts the body short. The exception is a {@link ConnectorError}, which ends an answer that is too
 * large. `abort` closes the connection, or drops the request where there is none yet.
 */
export class AnswerCollector implements Dispatcher.DispatchHandler {
  private controller: Dispatcher.DispatchController | undefined
  private head: { readonly status: number; readonly retryAfter: string | undefined } | undefined
  private readonly chunks: Array<Buffer> = []
  private bytes = 0
  private interim = 0
  private finished = false
  private readonly options: CollectorOptions
  private readonly timeout: NodeJS.Timeout

  constructor(options: CollectorOptions) {
    this.options = options
    // @effect-diagnostics-next-line globalTimers:off -- one for each request: a fiber costs several times as much
    this.timeout = setTimeout(() => this.finishAndAbort("timeout"), options.timeoutMillis)
  }

  abort(): void {
    this.finished = true
    clearTimeout(this.timeout)
    this.controller?.abort(new Error("The request was aborted"))
  }

  /** The answer as received up to now; undefined before the status. */
  private partialAnswer(): Answer | undefined {
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
    // 1xx responses are interim; the final response follows
    if (status >= 200) this.head = { status, retryAfter: headers["retry-after"] }
    else if (++this.interim > maxInterim) this.finishAndAbort("protocol")
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.finished) return
    const kept = chunk.subarray(0, maxAnswerBytes - this.bytes)
    // a copy: the chunk would keep the socket's whole buffer in memory
    this.chunks.push(Buffer.from(kept))
    this.bytes += chunk.length
    if (this.bytes <= maxAnswerBytes) return
    this.finishAndAbort("protocol")
  }

  onResponseEnd(): void {
    this.options.onReleased(true)
    this.finish(this.partialAnswer() ?? ConnectorError.because("protocol"))
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.options.onReleased(false)
    this.finish(error instanceof ConnectorError ? error : this.partialAnswer() ?? ConnectorError.from(error))
  }

  private finishAndAbort(reason: ConnectorReason): void {
    this.finish(this.partialAnswer() ?? ConnectorError.because(reason))
    this.abort()
  }

  private finish(outcome: Answer | ConnectorError): void {
    if (this.finished) return
    this.finished = true
    clearTimeout(this.timeout)
    this.options.onDone(outcome)
  }
}

const utf8 = new TextDecoder()

const parseRetryAfter = (value: string | undefined, nowMillis: number): number | undefined => {
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  // IMF-fixdate, the only date format that senders may generate (RFC 9110, section 5.6.7)
  if (!/^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/.test(value)) return undefined
  const atMillis = Date.parse(value)
  return Number.isNaN(atMillis) ? undefined : Math.max(0, Math.ceil((atMillis - nowMillis) / 1000))
}
