import type { Asset } from "@card-rewards/domain/Money"
import { movementNames, type Statement } from "@card-rewards/domain/Statement"
import { memo, useState } from "react"
import { printDay, startOfDate } from "../../format/Time.ts"
import { type StatementDay, sum } from "../../statements/Statement.ts"
import { Failure } from "../../ui/Failure.tsx"
import { Money } from "../../ui/Money.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { Head, NumberHead, Scrollable } from "../../ui/Table.tsx"
import { useDownload } from "./useDownload.ts"

const shownAtFirst = 31
const balanceNames = ["held", "free", "reserved", "waiting"] as const

/** What moved on each day and what it left, latest first, with the sums; also as CSV. */
export const StatementTable = ({ asset, statement }: { readonly asset: Asset; readonly statement: Statement }) => {
  const { days, opening } = statement
  const download = useDownload(asset, statement)
  const [shown, setShown] = useState(shownAtFirst)
  return (
    <Panel
      title="Statement"
      hint={`UTC days in ${asset}, latest first: what moved, and what was left at the end of the day.`}
      actions={
        <button type="button" className="button" disabled={download.isPending} onClick={() => download.mutate()}>
          Download CSV
        </button>
      }
      flush
    >
      {download.isError && <Failure error={download.error} />}
      <Scrollable label={`Statement in ${asset}`} className="table-scroll tall">
        <table className="table statement">
          <thead>
            <tr>
              <Head>Day</Head>
              {[...movementNames, ...balanceNames].map((name) => (
                <NumberHead key={name}>{name}</NumberHead>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr className="strong">
              <td>All {days.length}</td>
              {movementNames.map((name) => (
                <Cell key={name} asset={asset} amount={sum(days, name)} />
              ))}
              {balanceNames.map((name) => (
                <td key={name} />
              ))}
            </tr>
            {days
              .toReversed()
              .slice(0, shown)
              .map((day) => (
                <Day key={day.date} asset={asset} day={day} />
              ))}
            {shown >= days.length && (
              <tr>
                <td className="muted">Opening</td>
                <td colSpan={movementNames.length} />
                {balanceNames.map((name) => (
                  <Cell key={name} asset={asset} amount={opening[name]} />
                ))}
              </tr>
            )}
          </tbody>
        </table>
      </Scrollable>
      {days.length > shown && (
        <button type="button" className="link more" onClick={() => setShown(shown * 2)}>
          Show more of {days.length} days
        </button>
      )}
    </Panel>
  )
}

/** Rendered again only when its day has changed. */
const Day = memo(({ asset, day }: { readonly asset: Asset; readonly day: StatementDay }) => (
  <tr>
    <td>{printDay(startOfDate(day.date))}</td>
    {movementNames.map((name) => (
      <Cell key={name} asset={asset} amount={day[name]} />
    ))}
    {balanceNames.map((name) => (
      <Cell key={name} asset={asset} amount={day.closing[name]} />
    ))}
  </tr>
))

const Cell = ({ amount, asset }: { readonly asset: Asset; readonly amount: bigint }) => (
  <td className="number">
    <Money amount={amount} unit={asset} bare />
  </td>
)
