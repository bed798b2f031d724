import { Tooltip } from "@base-ui/react/tooltip"
import { printTimestamp } from "@card-rewards/domain/Time"
import { printIn, printLocal, type TimePart } from "../format/Time.ts"
import { useZone } from "./Zone.tsx"

/** An instant, or its day, in the chosen time zone; the tooltip shows it in both zones. */
export const When = ({ at, part = "all" }: { readonly at: number; readonly part?: TimePart }) => {
  const zone = useZone()
  return (
    <Tooltip.Root>
      <Tooltip.Trigger render={<time dateTime={printTimestamp(at)} tabIndex={-1} />} className="when">
        {printIn(zone, at, part)}
      </Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Positioner sideOffset={6}>
          <Tooltip.Popup className="tooltip">
            <span>{printTimestamp(at)}</span>
            <span className="muted">{printLocal(at)} for you</span>
          </Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}
