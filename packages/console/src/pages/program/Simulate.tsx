import { ProgramId } from "@card-rewards/domain/Ids"
import { ProgramRefused, type ProgramDefinition } from "@card-rewards/domain/Program"
import type { Simulation } from "@card-rewards/domain/Simulation"
import { instant, parseTimestamp } from "@card-rewards/domain/Time"
import { Equal, Result } from "effect"
import { useState } from "react"
import { CompareBars } from "../../charts/CompareBars.tsx"
import { printDay, toInput } from "../../format/Time.ts"
import { useChange } from "../../session/Query.ts"
import { Failure } from "../../ui/Failure.tsx"
import { Field } from "../../ui/Field.tsx"
import { Money } from "../../ui/Money.tsx"
import { Panel, Stat } from "../../ui/Panel.tsx"
import { useNow } from "../../ui/useNow.ts"
import { Waiting } from "../../ui/Waiting.tsx"
import { assign, type Compiled, type Problems } from "./Compile.ts"

/** A draft, and the instants between which its purchases are. */
interface Simulated {
  readonly definition: ProgramDefinition
  readonly from: number
  readonly to: number
}

/** What the draft would have paid for past purchases, against what was paid. */
export const Simulate = ({
  compiled,
  decoded,
  onProblems
}: {
  readonly compiled: Compiled
  readonly decoded: Result.Result<ProgramDefinition, Problems>
  readonly onProblems: (problems: Problems) => void
}) => {
  const now = useNow(60_000)
  const [from, setFrom] = useState(() => toInput(now - 90 * 86_400_000).slice(0, 10))
  const [to, setTo] = useState(() => toInput(now + 86_400_000).slice(0, 10))
  const start = parseTimestamp(`${from}T00:00:00Z`)
  const end = parseTimestamp(`${to}T00:00:00Z`)
  const simulate = useChange((api, input: Simulated) =>
    api.programs.simulate({
      params: { programId: ProgramId.make(compiled.programId) },
      payload: { definition: input.definition, from: instant(input.from), to: instant(input.to) }
    })
  )
  /** What the form has now; undefined while it has no draft or dates that can be simulated. */
  const wanted: Simulated | undefined =
    start === undefined || end === undefined || start >= end || Result.isFailure(decoded)
      ? undefined
      : { definition: decoded.success, from: start, to: end }
  const run = () => {
    if (Result.isFailure(decoded)) return onProblems(decoded.failure)
    if (wanted === undefined) return
    simulate.mutateAsync(wanted).then(
      () => onProblems(new Map()),
      (error: unknown) => error instanceof ProgramRefused && onProblems(assign(compiled, error.problems))
    )
  }
  return (
    <Panel title="Simulation" hint="This draft over purchases of the past, in a snapshot. Nothing is stored.">
      <div className="form-row inline">
        <Field label="Purchases from" type="date" value={from} onChange={setFrom} />
        <Field label="until" type="date" value={to} onChange={setTo} />
        <button
          type="button"
          className="button"
          onClick={run}
          disabled={simulate.isPending || start === undefined || end === undefined || start >= end}
        >
          Simulate
        </button>
      </div>
      {simulate.isPending && (
        <Waiting label="Past purchases are evaluated anew">
          A simulation takes a minute at most; a shorter time has fewer purchases.
        </Waiting>
      )}
      {simulate.isError && !(simulate.error instanceof ProgramRefused) && <Failure error={simulate.error} />}
      {simulate.isSuccess && (
        <div className="outcome" role="status">
          <p className="hint">
            Purchases from {printDay(simulate.variables.from)} until {printDay(simulate.variables.to)}, UTC.{" "}
            {!Equal.equals(simulate.variables, wanted) && (
              <b>This is the outcome of an earlier draft or of other dates.</b>
            )}
          </p>
          <Outcome simulation={simulate.data.simulation} />
        </div>
      )}
    </Panel>
  )
}

const Outcome = ({ simulation }: { readonly simulation: Simulation }) => {
  const { asset, byCategory, byMonth, byTier, cappedAway, paid, wouldPay } = simulation
  const count = (value: number) => value.toLocaleString("en")
  const change = paid === 0n ? undefined : Number(((wouldPay - paid) * 10_000n) / paid) / 100
  return (
    <>
      <dl className="stats">
        <Stat
          label="Paid"
          color="c-paid"
          hint={`${count(simulation.transactions)} purchases of ${count(simulation.users)} users`}
        >
          <Money amount={paid} unit={asset} />
        </Stat>
        <Stat
          label="Would pay"
          color="c-would"
          hint={change === undefined ? undefined : `${change > 0 ? "+" : change < 0 ? "−" : ""}${Math.abs(change)} %`}
        >
          <Money amount={wouldPay} unit={asset} />
        </Stat>
        <Stat label="Cut by caps" hint="on top of that without them">
          <Money amount={cappedAway} unit={asset} />
        </Stat>
        <Stat label="Users who gain" hint={`${count(simulation.losing)} lose`}>
          {count(simulation.gaining)}
        </Stat>
      </dl>
      {simulation.transactions > 0 && (
        <>
          <ul className="legend">
            <li>
              <i className="swatch c-paid" />
              Paid
            </li>
            <li>
              <i className="swatch c-would" />
              Would pay
            </li>
          </ul>
          <div className="compares">
            <CompareBars asset={asset} caption="By month" empty="" rows={byMonth} />
            <CompareBars asset={asset} caption="By category" empty="no category" rows={byCategory} />
            <CompareBars asset={asset} caption="By tier" empty="no tier" rows={byTier} />
          </div>
        </>
      )}
    </>
  )
}
