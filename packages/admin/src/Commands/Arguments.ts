import { hasSecret } from "@card-rewards/domain/ApiKey"
import * as Ids from "@card-rewards/domain/Ids"
import { Amount, Asset } from "@card-rewards/domain/Money"
import { ReplayId } from "@card-rewards/domain/Replay"
import { Schema } from "effect"
import { Argument, Flag } from "effect/cli"

/** What a command has as its arguments is kept among the operators' actions. */
const isNoSecret = Schema.makeFilter((id: string) =>
  hasSecret(id) ? "an id or a name, and not a key or a secret" : undefined
)

export const integratorId = Argument.String("integratorId").pipe(
  Argument.withDescription("The integrator's id"),
  Argument.withSchema(Ids.IntegratorId.check(isNoSecret))
)

export const programId = Argument.String("programId").pipe(
  Argument.withDescription("One of the integrator's programs"),
  Argument.withSchema(Ids.ProgramId.check(isNoSecret))
)

export const keyName = Argument.String("name").pipe(
  Argument.withDescription("The key's name, which is never reused"),
  Argument.withSchema(Ids.ApiKeyName.check(isNoSecret))
)

export const userId = Argument.String("userId").pipe(
  Argument.withDescription("The user, by the integrator's own id"),
  Argument.withSchema(Ids.UserId.check(isNoSecret))
)

export const replayId = Argument.String("replayId").pipe(
  Argument.withDescription("The replay's id, such as rpl_2"),
  Argument.withSchema(ReplayId)
)

/** An amount that moved, and its reference. */
export const movement = {
  reference: Argument.String("reference").pipe(
    Argument.withDescription("Your id of the confirmed transaction, unique in the vault"),
    Argument.withSchema(Ids.Reference.check(isNoSecret))
  ),
  asset: Argument.Literals("asset", Asset.literals).pipe(Argument.withDescription("USDC or EURe")),
  amount: Argument.String("amount").pipe(
    Argument.withDescription("In the asset's smallest unit"),
    Argument.withSchema(Amount)
  )
}

export const cell = Flag.String("cell").pipe(
  Flag.withDescription("The cell, by its name in CELLS"),
  Flag.optional
)
