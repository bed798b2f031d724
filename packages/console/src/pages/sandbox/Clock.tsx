import { useQueryClient } from "@tanstack/react-query"
import { instant, printTimestamp } from "@card-rewards/domain/Time"
import { Effect } from "effect"
import { type FormEvent, useState } from "react"
import { parseInput, printDay, toInputSeconds } from "../../format/Time.ts"
import { machineMillis } from "../../session/Machine.ts"
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
  const client = useQueryClient()
  const showToast = useToast()
  const move = useChange((api, to: number) =>
    Effect.tap(api.sandbox.moveClock({ payload: { now: instant(to) } }), ({ now }) =>
      Effect.sync(() => onClock(now - machineMillis()))
    )
  )
  const moveTo = async (to: number) => {
    const moved = await move.mutateAsync(to).catch(() => undefined)
    if (moved === undefined) return
    setTarget("")
    showToast("The clock was moved", printTimestamp(moved.now))
    await client.invalidateQueries()
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
  readonly moveTo: (millis: number) => Promise<void>
}

/** Moves by a fixed time. */
const Jumps = ({ isMoving, moveTo, now }: Moves) => (
  <div className="actions" role="group" aria-label="Move forward by">
    {jumps.map(([name, millis]) => (
      <button
        key={name}
        type="button"
        className="button"
        disabled={isMoving}
        onClick={() => void moveTo(now + millis)}
      >
        + {name}
      </button>
    ))}
  </div>
)

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
