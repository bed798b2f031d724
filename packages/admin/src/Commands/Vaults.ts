import { Integrators } from "@card-rewards/core/Integrators"
import type { RecordAction } from "@card-rewards/core/OperatorActions/RecordAction"
import { Vault } from "@card-rewards/core/Vault"
import type { IntegratorId, Reference } from "@card-rewards/domain/Ids"
import type { Amount, Asset } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { changing, inItsCell } from "../Changing.ts"
import { json, print } from "../Output.ts"
import { withServices } from "../Services.ts"
import { integratorId, movement, userId } from "./Arguments.ts"
import { example } from "./Examples.ts"

interface Movement {
  readonly integratorId: IntegratorId
  readonly reference: Reference
  readonly asset: Asset
  readonly amount: typeof Amount.Type
  readonly json: boolean
}

/** The arguments of all three; the audit finds a production vault's operations by them. */
const moved = ({ amount, asset, integratorId, reference }: Movement) =>
  ({ integratorId, reference, asset, amount: `${amount}` })

const requestOf = ({ amount, asset, reference }: Movement) => ({ reference, amount: { asset, amount } })

const transfer = (operation: "deposit" | "withdraw") => ({
  arguments: moved,
  onRefusal: inItsCell,
  run: Effect.fn(function*(input: Movement, record: RecordAction) {
    yield* (yield* Integrators).requireExisting(input.integratorId)
    yield* print(yield* (yield* Vault)[operation](input.integratorId, requestOf(input), record), input.json)
  })
})

const deposit = changing("vault deposit", { integratorId, ...movement, json }, transfer("deposit")).pipe(
  Command.withDescription("Record a deposit; repeating the same command changes nothing"),
  example("vault deposit acme 0xd1 USDC 500000000", "500 USDC"),
  withServices
)

const withdraw = changing("vault withdraw", { integratorId, ...movement, json }, transfer("withdraw")).pipe(
  Command.withDescription("Record a withdrawal of free money"),
  example("vault withdraw acme 0xe2 USDC 100000000", "100 USDC; refused if less is free"),
  withServices
)

const claim = changing("vault claim", { integratorId, userId, ...movement, json }, {
  arguments: (input) => ({ ...moved(input), userId: input.userId }),
  onRefusal: inItsCell,
  run: Effect.fn(function*(input, record) {
    const request = { ...requestOf(input), userId: input.userId }
    yield* (yield* Integrators).requireExisting(input.integratorId)
    yield* print(yield* (yield* Vault).claim(input.integratorId, request, record), input.json)
  })
}).pipe(
  Command.withDescription("Record a claim: what was paid to a user"),
  example("vault claim acme user-1 0xf3 USDC 1000000", "1 USDC; refused if less is claimable"),
  withServices
)

/** Amounts that moved on-chain, under the same rules as in the sandbox. */
export const vault = Command.make("vault").pipe(
  Command.withDescription("Record movements of a vault's money that were confirmed on-chain"),
  example("vault deposit acme 0xd1 USDC 500000000", "The integrator funded its vault with 500 USDC"),
  Command.withSubcommands([deposit, withdraw, claim])
)
