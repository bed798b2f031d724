import { listen } from "@card-rewards/testing/LoopbackServer"
import { certificate, certificateAuthority, secureName } from "@card-rewards/testing/WebhookReceiver"
import {
  type Answer,
  Connector,
  ConnectorError,
  type ConnectorOptions,
  type ConnectorReason
} from "@card-rewards/worker/Connector"
import { assert } from "@effect/vitest"
import { Effect, Result } from "effect"
import { type RequestListener } from "node:http"
import { createServer as createHttpsServer } from "node:https"
import type { Socket } from "node:net"
import { createServer as createTlsServer } from "node:tls"

/** An HTTPS server on 127.0.0.1 with a certificate for {@link secureName}. */
export const httpsReceiver = (listener: RequestListener, options?: { readonly host: string }) =>
  listen(createHttpsServer(certificate(), listener), options)

/** Answers each connection with the bytes that `speak` writes, whatever the request. */
export const rawReceiver = (speak: (socket: Socket) => void) =>
  listen(createTlsServer(certificate(), (socket) => {
    socket.on("error", () => {})
    socket.once("data", () => speak(socket))
  }))

export const resolveTo = (...addresses: ReadonlyArray<string>) => () => Effect.succeed(addresses)

/** Private addresses are refused, except that 127.0.0.1 counts as public. */
const guarded: ConnectorOptions = {
  allowPrivateNetwork: false,
  resolve: resolveTo("127.0.0.1"),
  exemptAddresses: ["127.0.0.1"],
  certificateAuthorities: [certificateAuthority()]
}

export const withConnector = (options: Partial<ConnectorOptions> = {}) =>
  Effect.provide(Connector.layer({ ...guarded, ...options }))

export const post = (url: string, body = "{}", headers: Readonly<Record<string, string>> = {}) =>
  Effect.flatMap(Connector, (connector) =>
    Effect.callback<Answer, ConnectorError>((resume) => {
      const abort = connector.post({ url, body, headers }, (outcome) =>
        resume(outcome instanceof ConnectorError ? Effect.fail(outcome) : Effect.succeed(outcome)))
      return Effect.sync(abort)
    }))

export const expectReason = (reason: ConnectorReason) => <A>(self: Effect.Effect<A, ConnectorError, Connector>) =>
  Effect.result(self).pipe(Effect.map((result) => {
    if (Result.isSuccess(result)) return assert.fail(`expected ${reason}, but there was an answer`)
    assert.instanceOf(result.failure, ConnectorError)
    assert.strictEqual(result.failure.reason, reason)
    assert.notMatch(result.failure.message, /\d|receiver|:/, "the message has an address or a name")
  }))

/**
 * Waits until undici can use the connection of the last answer again: one whole iteration of the event loop after the
 * answer. The iteration in which the answer arrived is too early.
 */
export const connectionReleased = Effect.callback<void>((resume) => {
  setImmediate(() => setImmediate(() => resume(Effect.void)))
})

export const urlOf = ({ port }: { readonly port: number }, path = "/hook", host = secureName) =>
  `https://${host}:${port}${path}`
