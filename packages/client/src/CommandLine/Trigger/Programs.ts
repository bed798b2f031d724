/** The programs that pay for the purchases of stories. Only users of their own segments are eligible. */
import { ProgramId } from "@card-rewards/domain/Ids"
import { plainProgram } from "@card-rewards/domain/PlainProgram"
import { minimumLeadMillis, ProgramDefinition } from "@card-rewards/domain/Program"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Schema } from "effect"
import type { SandboxOperations } from "../../CardRewards.ts"

/** A program that pays 1 % of a purchase in dollars, in USDC. */
export interface StoryProgram {
  readonly id: ProgramId
  /** The segment of its users, and of no others. */
  readonly segment: string
  readonly holdingPeriodDays: number
}

const program = (id: string, holdingPeriodDays: number): StoryProgram => ({
  id: ProgramId.make(id),
  segment: id,
  holdingPeriodDays
})

/** Rewards of `held` are pending for 14 days, those of `atOnce` are claimable at once: stories move no clock. */
export const programs = {
  held: program("card-rewards-trigger", 14),
  atOnce: program("card-rewards-trigger-at-once", 0)
}

/** The lead of a version over its publication, with a second for the request. */
const leadMillis = minimumLeadMillis + 1_000

const decodeDefinition = Schema.decodeUnknownEffect(ProgramDefinition)

/**
 * Publishes version 1 of a program where there is none, and moves the sandbox clock to where it is in force. Returns
 * whether the clock was moved.
 */
export const publishOnce = Effect.fnUntraced(function*(
  api: SandboxOperations,
  { holdingPeriodDays, id, segment }: StoryProgram
) {
  const { now } = yield* api.sandbox.clock()
  const { programs } = yield* api.programs.list()
  const first = programs.find(({ programId }) => programId === id)?.versions[0]
  const effectiveFrom = first?.effectiveFrom ?? instant(now + leadMillis)
  if (first === undefined) {
    const payload = yield* decodeDefinition({
      ...plainProgram,
      effectiveFrom: printTimestamp(effectiveFrom),
      holdingPeriodDays,
      // a purchase of any amount earns its full reward
      caps: { perMonth: "9".repeat(78), categories: [] },
      eligibility: { segments: [segment] }
    })
    yield* api.programs.publish({ params: { programId: id, version: 1 }, payload })
  }
  if (effectiveFrom <= now) return false
  // a refusal says that the clock is beyond that time
  yield* api.sandbox.moveClock({ payload: { now: effectiveFrom } }).pipe(
    Effect.catchTag("ClockCannotGoBack", () => Effect.void)
  )
  return true
})
