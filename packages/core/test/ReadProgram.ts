import type { IntegratorId, ProgramId } from "@card-rewards/domain/Ids"
import { Program } from "@card-rewards/domain/Program"
import { Effect, Schema, Stream } from "effect"
import { Programs } from "../src/Programs.ts"

const decode = Schema.decodeEffect(Schema.fromJsonString(Schema.Struct({ program: Program })))

/** A program's pieces of text. */
export const readPieces = Effect.fnUntraced(function*(integratorId: IntegratorId, programId: ProgramId) {
  const { first, rest = Stream.empty } = yield* (yield* Programs).get(integratorId, programId)
  return [first, ...yield* Stream.runCollect(rest)]
})

/** A program, decoded from its text. */
export const readProgram = Effect.fnUntraced(function*(integratorId: IntegratorId, programId: ProgramId) {
  return (yield* decode(Buffer.concat(yield* readPieces(integratorId, programId)).toString())).program
})
