import { Vault } from "@card-rewards/core/Vault"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { json, print } from "../Output.ts"
import { withServices } from "../Services.ts"
import { integratorId, movement, userId } from "./Arguments.ts"
import { example } from "./Examples.ts"

const deposit = Command.make("deposit", { integratorId, ...movement, json }, Effect.fn(function*(input) {
  const { amount, asset } = input
  const request = { reference: input.reference, amount: { asset, amount } }
  yield* print(yield* (yield* Vault).deposit(input.integratorId, request), input.json)
})).pipe(
  Command.withDescription("Record a deposit; repeating the same command changes nothing"),
  example("vault deposit acme 0xd1 USDC 500000000", "500 USDC"),
  withServices
)

const withdraw = Command.make("withdraw", { integratorId, ...movement, json }, Effect.fn(function*(input) {
  const { amount, asset } = input
  const request = { reference: input.reference, amount: { asset, amount } }
  yield* print(yield* (yield* Vault).withdraw(input.integratorId, request), input.json)
})).pipe(
  Command.withDescription("Record a withdrawal of free money"),
  example("vault withdraw acme 0xe2 USDC 100000000", "100 USDC; refused if less is free"),
  withServices
)

const claim = Command.make("claim", { integratorId, userId, ...movement, json }, Effect.fn(function*(input) {
  const { amount, asset } = input
  const request = { reference: input.reference, userId: input.userId, amount: { asset, amount } }
  yield* print(yield* (yield* Vault).claim(input.integratorId, request), input.json)
})).pipe(
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
