/** Example bodies for the OpenAPI description. The tests decode each of them with its schema. */
import { books } from "./Books.ts"
import { errors } from "./Errors.ts"
import { event } from "./Events.ts"
import type { OperationExamples } from "./OperationExamples.ts"
import { at, computation, definition, eventId, later, publishedAt, reward, spendEvent, user } from "./Values.ts"

const secret = `service_whsec_${"5b".repeat(32)}`

const version = { version: 1, effectiveFrom: definition.effectiveFrom, publishedAt }
const published = { programId: "groceries-2026", ...version, duplicate: false }
const key = { name: "server-2026", last4: "9f3c", createdAt: at, lastUsedAt: at }
const endpoint = { id: "main", url: "https://hooks.example.com/card-rewards", createdAt: at }
const delivery = {
  eventId,
  kind: "reward.pending",
  state: "delivered",
  createdAt: at,
  attempts: [{ at, durationMillis: 41, status: 200 }]
}
const replay = { id: "rpl_2", from: at, to: later, state: "running", events: 1250 }
const waiting = {
  ...delivery,
  state: "pending",
  nextAttemptAt: "2030-01-01T12:00:05.000Z",
  attempts: [{ at, durationMillis: 5000, error: "connect_timeout" }]
}
const simulation = { reference: "deposit-1", amount: { asset: "USDC", amount: "1000000000" } }
const recorded = { reference: "deposit-1", vaultId: "sandbox", duplicate: false }
const balance = { expected: "0", pending: "9876000", claimable: "0", paid: "0", owed: "0", awaitingFunding: "0" }
const noBalance = { ...balance, pending: "0" }
const purchase = (externalTransactionId: string) => ({ ...spendEvent, externalTransactionId })
const repeated = (first: object) =>
  ({ first: { ...first, duplicate: false }, duplicate: { ...first, duplicate: true } })

/** The examples of the operations by `operationId`. */
export const operations: Readonly<Record<string, OperationExamples>> = {
  ...books,
  "spendEvents.submit": {
    request: {
      authorization: { ...spendEvent, kind: "authorization", externalTransactionId: "auth-1" },
      incremental_authorization: {
        ...spendEvent,
        kind: "incremental_authorization",
        externalTransactionId: "auth-1-more",
        amount: { currency: "USD", amount: "500" },
        authorizationId: "auth-1"
      },
      clearing: { ...spendEvent, authorizationId: "auth-1" },
      reversal: { ...spendEvent, kind: "reversal", externalTransactionId: "auth-1-void", authorizationId: "auth-1" },
      refund: {
        ...spendEvent,
        kind: "refund",
        externalTransactionId: "refund-1",
        amount: { currency: "USD", amount: "2345" },
        originalTransactionId: "txn-1"
      }
    },
    success: repeated({ id: "se:acme:user-1:clearing:txn-1" })
  },
  "spendEvents.submitBatch": {
    request: {
      batch: { events: [purchase("txn-2"), { ...purchase("txn-3"), userId: "user-9" }] }
    },
    success: {
      results: {
        results: [
          { status: 202, id: "se:acme:user-1:clearing:txn-2", duplicate: false },
          { status: 422, error: { _tag: "UserNotEnrolled", ...errors.UserNotEnrolled?.body } }
        ]
      }
    }
  },
  "users.put": {
    request: {
      attributes: { tier: "gold", country: "DE", segment: "beta" },
      referred: { tier: "gold", country: "DE", segment: "beta", referredBy: "user-0" },
      none: {}
    },
    success: { enrolled: { user, outcome: "enrolled" }, unchanged: { user, outcome: "unchanged" } }
  },
  "users.get": { success: { user: { user }, referred: { user: { ...user, referredBy: "user-0" } } } },
  "users.balance": {
    success: {
      balance: { userId: "user-1", balances: [{ asset: "USDC", ...balance }, { asset: "EURe", ...noBalance }] }
    }
  },
  "users.rewards": {
    success: { page: { rewards: [reward], next: "r4z" }, last: { rewards: [reward] }, none: { rewards: [] } }
  },
  "users.explanation": {
    success: {
      explanation: {
        explanation: {
          rewardId: reward.id,
          programId: reward.programId,
          programVersion: 1,
          ...computation,
          refunds: [{ externalTransactionId: "refund-1", amount: "2345", reduction: "1876000" }],
          recoveries: [],
          amount: "8000000"
        }
      }
    }
  },
  "users.quotes": {
    request: {
      now: { amount: spendEvent.amount, merchant: spendEvent.merchant },
      then: { amount: spendEvent.amount, merchant: spendEvent.merchant, occurredAt: at }
    },
    success: {
      quotes: {
        quotes: [{
          programId: reward.programId,
          programVersion: 1,
          asset: "USDC",
          amount: "9876000",
          explanation: computation
        }]
      },
      none: { quotes: [] }
    }
  },
  "users.spendEvent": {
    success: {
      earned: {
        spendEvent: {
          id: "se:acme:user-1:clearing:txn-1",
          receivedAt: at,
          state: "applied",
          event: spendEvent,
          outcomes: [
            { programId: "bonus-2026", reason: "noVersionInForce" },
            { programId: "groceries-2026", programVersion: 1, rewardId: reward.id, amount: "9876000" },
            { programId: "travel", programVersion: 3, reason: "zeroRate" }
          ]
        }
      },
      stored: {
        spendEvent: { id: "se:acme:user-1:clearing:txn-1", receivedAt: at, state: "stored", event: spendEvent }
      },
      nothing: {
        spendEvent: {
          id: "se:acme:user-1:clearing:txn-2",
          receivedAt: at,
          state: "applied",
          event: { ...purchase("txn-2"), amount: { currency: "GBP", amount: "500" } },
          outcomes: [],
          reason: "currencyEarnsNothing"
        }
      }
    }
  },
  "spendEvents.waiting": {
    success: {
      page: {
        spendEvents: [{
          id: "se:acme:user-1:refund:refund-1",
          receivedAt: at,
          waitingFor: { kind: "clearing", externalTransactionId: "txn-1" },
          event: { ...purchase("refund-1"), kind: "refund", originalTransactionId: "txn-1" }
        }]
      },
      none: { spendEvents: [] }
    }
  },
  "spendEvents.backlog": {
    success: { behind: { stored: 12, waiting: 1, oldestStoredAt: at }, none: { stored: 0, waiting: 0 } }
  },
  "events.list": {
    success: { page: { events: [event("reward.pending", reward)], next: "17" }, none: { events: [], next: "17" } }
  },
  "programs.publish": {
    request: { version: definition },
    success: { published, duplicate: { ...published, duplicate: true } }
  },
  "programs.list": {
    success: { programs: { programs: [{ programId: published.programId, asset: "USDC", versions: [version] }] } }
  },
  "programs.get": {
    success: {
      program: { program: { programId: published.programId, asset: "USDC", versions: [{ ...version, definition }] } }
    }
  },
  "programs.simulate": {
    request: { january: { definition, from: "2030-01-01T00:00:00.000Z", to: "2030-02-01T00:00:00.000Z" } },
    success: {
      simulation: {
        simulation: {
          from: "2030-01-01T00:00:00.000Z",
          to: "2030-02-01T00:00:00.000Z",
          asset: "USDC",
          transactions: 3,
          users: 2,
          paid: "11876000",
          wouldPay: "21752000",
          cappedAway: "0",
          gaining: 1,
          losing: 0,
          byMonth: [{ key: "2030-01", paid: "11876000", wouldPay: "21752000" }],
          byCategory: [
            { key: "", paid: "2000000", wouldPay: "2000000" },
            { key: "groceries", paid: "9876000", wouldPay: "19752000" }
          ],
          byTier: [
            { key: "", paid: "2000000", wouldPay: "2000000" },
            { key: "gold", paid: "9876000", wouldPay: "19752000" }
          ]
        }
      }
    }
  },
  "apiKeys.list": {
    success: { keys: { keys: [key, { ...key, name: "server-2025", last4: "04d1", revokedAt: later }] } }
  },
  "apiKeys.create": {
    request: { key: { name: key.name } },
    success: {
      created: {
        key: { name: key.name, last4: "9f3c", createdAt: at },
        secret: `service_sk_sandbox_${"0a".repeat(30)}00009f3c`,
        duplicate: false
      },
      duplicate: { key, duplicate: true }
    }
  },
  "apiKeys.revoke": { success: { revoked: { key: { ...key, revokedAt: later } } } },
  "webhookEndpoints.list": {
    success: { endpoint: { endpoints: [{ ...endpoint, lag: 0 }] }, none: { endpoints: [] } }
  },
  "webhookEndpoints.create": {
    request: { endpoint: { id: endpoint.id, url: endpoint.url } },
    success: { created: { endpoint, secret, duplicate: false }, duplicate: { endpoint, duplicate: true } }
  },
  "webhookEndpoints.get": { success: { endpoint: { endpoint: { ...endpoint, lag: 3 } } } },
  "webhookEndpoints.update": {
    request: { url: { url: "https://hooks.example.com/v2" } },
    success: { changed: { endpoint: { ...endpoint, url: "https://hooks.example.com/v2" } } }
  },
  "webhookEndpoints.remove": { success: { removed: { endpoint } } },
  "webhookEndpoints.rotateSecret": {
    success: { rotated: { endpoint: { ...endpoint, previousSecretExpiresAt: later }, secret } }
  },
  "webhookEndpoints.deliveries": {
    success: { page: { deliveries: [waiting, delivery], next: "d17.1893499200000.9.2" }, none: { deliveries: [] } }
  },
  "webhookEndpoints.redeliver": {
    success: { fresh: { delivery: { ...delivery, state: "pending", nextAttemptAt: at, attempts: [] } } }
  },
  "webhookEndpoints.startReplay": {
    request: { day: { from: at, to: later }, rewards: { from: at, kinds: ["reward.claimable", "reward.paid"] } },
    success: { running: { replay } }
  },
  "webhookEndpoints.getReplay": { success: { done: { replay: { ...replay, state: "done" } } } },
  "webhookEndpoints.ping": { success: { ping: { eventId } } },
  "sandbox.deposit": { request: { deposit: simulation }, success: repeated(recorded) },
  "sandbox.withdraw": {
    request: { withdrawal: { reference: "withdrawal-1", amount: { asset: "USDC", amount: "100000000" } } },
    success: repeated({ ...recorded, reference: "withdrawal-1" })
  },
  "sandbox.claim": {
    request: { claim: { reference: "claim-1", amount: { asset: "USDC", amount: "1000000" }, userId: "user-1" } },
    success: repeated({ ...recorded, reference: "claim-1" })
  },
  "sandbox.clock": { success: { clock: { now: at } } },
  "sandbox.moveClock": { request: { start: { now: at }, claimable: { now: later } }, success: { moved: { now: at } } }
}
