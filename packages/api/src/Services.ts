import { ApiKeys } from "@card-rewards/core/ApiKeys"
import { awaitAnswer } from "@card-rewards/core/AwaitSchema"
import { Backlog } from "@card-rewards/core/Backlog"
import { CellSlots } from "@card-rewards/core/CellSlots"
import * as Database from "@card-rewards/core/Database"
import { DeliveryLog } from "@card-rewards/core/DeliveryLog"
import { Environment, requireSame } from "@card-rewards/core/Environment"
import { Events } from "@card-rewards/core/Events"
import { Explanations } from "@card-rewards/core/Explanations"
import { Journal } from "@card-rewards/core/Journal"
import { JournalSeals } from "@card-rewards/core/JournalSeals"
import { Programs } from "@card-rewards/core/Programs"
import { Quotes } from "@card-rewards/core/Quotes"
import { Rewards } from "@card-rewards/core/Rewards"
import { SandboxClock } from "@card-rewards/core/SandboxClock"
import { Secrets, type SecretsKey } from "@card-rewards/core/Secrets"
import { type Limits as SimulationLimits, Simulations, type TakePermit } from "@card-rewards/core/Simulations"
import { SpendEvents } from "@card-rewards/core/SpendEvents"
import { SpendEventStatuses } from "@card-rewards/core/SpendEventStatuses"
import { Statements } from "@card-rewards/core/Statements"
import { Users } from "@card-rewards/core/Users"
import { Vault } from "@card-rewards/core/Vault"
import { WebhookEndpoints } from "@card-rewards/core/WebhookEndpoints"
import type { VaultId } from "@card-rewards/domain/Ids"
import { Effect, Layer } from "effect"
import { HandlerSlots } from "./Pipeline/HandlerSlots.ts"

/** What the services of every cell are built with. */
export interface Options {
  readonly environment: VaultId
  readonly secretsKeys: ReadonlyArray<SecretsKey>
  readonly allowPrivateNetwork: boolean
  /** The decisions' where absent. */
  readonly simulationLimits?: SimulationLimits
  /** Takes one of the permits for simulations of all cells of the process; a cell has its own where absent. */
  readonly takeSimulationPermit?: TakePermit
  /** The number of the process's cells; 1 where absent. */
  readonly cellCount?: number
  /** The cell's name where there are several. */
  readonly cell?: string | undefined
}

const all = {
  apiKeys: ApiKeys,
  backlog: Backlog,
  cellSlots: CellSlots,
  deliveryLog: DeliveryLog,
  events: Events,
  explanations: Explanations,
  journal: Journal,
  journalSeals: JournalSeals,
  programs: Programs,
  quotes: Quotes,
  rewards: Rewards,
  sandboxClock: SandboxClock,
  simulations: Simulations,
  spendEvents: SpendEvents,
  spendEventStatuses: SpendEventStatuses,
  statements: Statements,
  users: Users,
  vault: Vault,
  webhookEndpoints: WebhookEndpoints
} as const

/** What the pipeline and the handlers work with, over the database of one cell. */
export type Services = { readonly [Name in keyof typeof all]: (typeof all)[Name]["Service"] } & {
  /** The cell's name where there are several. */
  readonly cell: string | undefined
  /** The slots of requests that may hold one of the cell's connections for long, such as while they wait for a lock. */
  readonly lockingSlots: HandlerSlots
}

/** Builds the services of one cell; they end with the scope. */
export const make = Effect.fnUntraced(function*(database: Database.DatabaseConfig, options: Options) {
  const services = yield* Layer.build(
    Layer.mergeAll(
      ApiKeys.layer,
      Backlog.layer,
      CellSlots.layer,
      DeliveryLog.layer,
      Events.layer,
      Explanations.layer,
      Journal.layer,
      JournalSeals.layer,
      Quotes.layer,
      Rewards.layer,
      SandboxClock.layer,
      Simulations.layer(options.simulationLimits, options.takeSimulationPermit),
      SpendEvents.layer,
      SpendEventStatuses.layer,
      Statements.layer,
      Users.layer,
      Vault.layer,
      WebhookEndpoints.layer({ allowPrivateNetwork: options.allowPrivateNetwork }),
      Layer.effectDiscard(awaitAnswer(Database.withDeadline(5_000, requireSame)))
    ).pipe(Layer.provideMerge(Programs.layerOf(options.cellCount ?? 1)), Layer.provide([
      Environment.layer(options.environment),
      Secrets.layer({ keys: options.secretsKeys }),
      Database.layer(database)
    ]))
  )
  const collected: Services = {
    cell: options.cell,
    lockingSlots: yield* HandlerSlots.make({ all: Database.sharesOf(database.poolSize).locking, ofOne: 1 }),
    ...(yield* Effect.provideContext(Effect.all(all), services))
  }
  return collected
})
