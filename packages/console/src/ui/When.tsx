import { Tooltip } from "@base-ui/react/tooltip"
import { printTimestamp } from "@card-rewards/domain/Time"
import { printLocal, printTime } from "../format/Time.ts"

/** An instant in UTC; what it is where the reader sits is one hover, touch or tab away. */
export const When = ({ at, text }: { readonly at: number; readonly text?: string }) => (
  <Tooltip.Root>
    <Tooltip.Trigger render={<time dateTime={printTimestamp(at)} tabIndex={-1} />} className="when">
      {text ?? printTime(at)}
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
