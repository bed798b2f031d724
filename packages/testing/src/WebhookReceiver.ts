import { Context, Effect, FiberSet, Layer, type Scope } from "effect"
import { readFileSync } from "node:fs"
import { createServer, type IncomingMessage, type RequestListener } from "node:http"
import { createServer as createHttpsServer } from "node:https"
import * as LoopbackServer from "./LoopbackServer.ts"

/** A request that the receiver got, with its unparsed body. */
export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What the receiver answers: a status alone, or with headers, or after a delay in milliseconds. */
export type Answer = number | {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly delayMillis?: number
}

/** Where a receiver listens; plain HTTP on a free port of 127.0.0.1 when left out. */
export interface Options {
  /** HTTPS, with a certificate for {@link secureName} that {@link certificateAuthority} issued. */
  readonly secure?: boolean
  readonly host?: string
  readonly port?: number
}

/** An integrator's webhook receiver on a port of its own. A test chooses its answers, also while requests come. */
export class WebhookReceiver extends Context.Service<WebhookReceiver, {
  readonly port: number
  /** `http://127.0.0.1:<port>`; `https://` and {@link secureName} where it is secure. */
  readonly origin: string
  /** `/hooks` at the origin. */
  readonly url: string
  /** All requests so far, the latest last. */
  readonly received: ReadonlyArray<Received>
  /** Sets the answer to requests from now on; 200 at first. `undefined` is no answer. */
  readonly answer: (answer: Answer | ((request: Received) => Answer | undefined)) => void
  /** Passes each answer from now on to a function, which may send it later; `undefined` sends answers at once again. */
  readonly hold: (keep: ((respond: () => void) => void) | undefined) => void
  /** Ends every connection and refuses new ones before the scope does. */
  readonly close: Effect.Effect<void>
}>()("@card-rewards/testing/WebhookReceiver") {
  static readonly make = (options: Options = {}): Effect.Effect<WebhookReceiver["Service"], never, Scope.Scope> =>
    Effect.gen(function*() {
      const runFork = yield* FiberSet.makeRuntime<never>()
      const received: Array<Received> = []
      let answers: (request: Received) => Answer | undefined = () => 200
      let keep: ((respond: () => void) => void) | undefined
      const listener: RequestListener = (incoming, response) =>
        void read(incoming).then((request) => {
          received.push(request)
          const answer = answers(request)
          if (answer === undefined) return
          const { delayMillis, headers = {}, status }: Exclude<Answer, number> =
            typeof answer === "number" ? { status: answer } : answer
          const respond = () => void response.writeHead(status, headers).end()
          if (delayMillis !== undefined) runFork(Effect.delay(Effect.sync(respond), delayMillis))
          else if (keep === undefined) respond()
          else keep(respond)
        }, () => response.destroy())
      const server = options.secure === true ? createHttpsServer(certificate(), listener) : createServer(listener)
      const { close, port } = yield* LoopbackServer.listen(server, options)
      const origin = options.secure === true ? `https://${secureName}:${port}` : `http://127.0.0.1:${port}`
      return WebhookReceiver.of({
        port,
        origin,
        url: `${origin}/hooks`,
        received,
        answer: (next) => {
          answers = typeof next === "function" ? next : () => next
        },
        hold: (next) => {
          keep = next
        },
        close
      })
    })

  static readonly layer = Layer.effect(WebhookReceiver, WebhookReceiver.make())
}

/** A request with its whole body; rejects where the sender ends the connection before. */
export const read = async (request: IncomingMessage): Promise<Received> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, `${value}`]))
  return { path: request.url ?? "", headers, body: Buffer.concat(chunks).toString() }
}

const certificateFile = (name: string) => readFileSync(new URL(`../certificates/${name}`, import.meta.url), "utf8")

/** The name in the certificate of a secure receiver. */
export const secureName = "receiver.card-rewards.example"

/** The certificate of a secure receiver, and its key. */
export const certificate = () => ({ key: certificateFile("receiver.key"), cert: certificateFile("receiver.pem") })

/** The certificate of the authority that issued {@link certificate}. */
export const certificateAuthority = () => certificateFile("ca.pem")

/** The certificate of an authority that did not. */
export const otherCertificateAuthority = () => certificateFile("other-ca.pem")
