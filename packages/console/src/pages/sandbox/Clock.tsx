import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { type FormEvent, useState } from "react"
import { parseInput, printDay, toInputSeconds } from "../../format/Time.ts"
import { machineMillis } from "../../session/Machine.ts"
import { describe } from "../../session/Problem.ts"
import { useChange } from "../../session/Query.ts"
import { Failure } from "../../ui/Failure.tsx"
import { Field } from "../../ui/Field.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { useNow } from "../../ui/useNow.ts"
import { When } from "../../ui/When.tsx"

const hour = 3_600_000
const jumps = [
  ["1 hour", hour],
  ["1 day", 24 * hour],
  ["7 days", 7 * 24 * hour],
  ["30 days", 30 * 24 * hour]
] as const

/** The integrator's own clock. It ticks with real time, and is moved forward only. */
export const Clock = ({ onClock }: { readonly onClock: (offsetMillis: number) => void }) => {
  const now = useNow(1_000)
  const [target, setTarget] = useState("")
  const showToast = useToast()
  const move = useChange((api, to: number) =>
    Effect.tap(api.sandbox.moveClock({ payload: { now: instant(to) } }), ({ now }) =>
      Effect.sync(() => onClock(now - machineMillis()))
    )
  )
  const moveTo = async (to: number) => {
    try {
      const moved = await move.mutateAsync(to)
      setTarget("")
      showToast("The clock was moved", printTimestamp(moved.now))
      return true
    } catch (error) {
      return !describe(error).retry
    }
  }
  const moves: Moves = { now, moveTo, isMoving: move.isPending }
  return (
    <Panel
      title="Clock"
      hint="Governs purchases, versions, holding periods and cap months; not webhook attempts, keys and rate limits."
    >
      <div className="clock-panel">
        <p className="clock-face">
          <span className="clock-time">{printTimestamp(now).slice(11, 19)}</span>
          <span>{printDay(now)} UTC</span>
        </p>
        <div className="clock-moves">
          <Jumps {...moves} />
          <MoveTo {...moves} target={target} onTarget={setTarget} />
          {move.isError && <Failure error={move.error} />}
        </div>
      </div>
    </Panel>
  )
}

interface Moves {
  readonly now: number
  readonly isMoving: boolean
  /** Whether the service has answered, be it with a refusal. */
  readonly moveTo: (millis: number) => Promise<boolean>
}

/** Moves by a fixed time. A jump keeps its target until it is answered, so that a repeat does not move once more. */
const Jumps = ({ isMoving, moveTo, now }: Moves) => {
  const [unanswered, setUnanswered] = useState<{ readonly millis: number; readonly target: number }>()
  const jump = async (millis: number) => {
    const target = unanswered?.millis === millis ? unanswered.target : now + millis
    setUnanswered((await moveTo(target)) ? undefined : { millis, target })
  }
  return (
    <div className="actions" role="group" aria-label="Move forward by">
      {jumps.map(([name, millis]) => (
        <button
          key={name}
          type="button"
          className="button"
          disabled={isMoving}
          onClick={() => void jump(millis)}
        >
          + {name}
        </button>
      ))}
    </div>
  )
}

/** Moves to an instant that is typed. */
const MoveTo = ({
  isMoving,
  moveTo,
  now,
  onTarget,
  target
}: Moves & { readonly target: string; readonly onTarget: (target: string) => void }) => {
  const wanted = parseInput(target)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (wanted !== undefined) void moveTo(wanted)
  }
  return (
    <>
      <form className="form-row inline" onSubmit={submit}>
        <Field
          label="Move to (UTC)"
          type="datetime-local"
          value={target}
          onChange={onTarget}
          placeholder={toInputSeconds(now)}
        />
        <button type="submit" className="button" disabled={wanted === undefined || isMoving}>
          Move
        </button>
      </form>
      {wanted !== undefined && (
        <p className="hint">
          That is <When at={wanted} />.
        </p>
      )}
    </>
  )
}
