import { AlertDialog } from "@base-ui/react/alert-dialog"
import type { ReactElement, ReactNode } from "react"
import { useState } from "react"
import { Failure } from "./Failure.tsx"

/**
 * Asks for confirmation of an action that cannot be undone. Stays open while the action runs, since closing it would
 * cancel nothing, and when it fails, with the error.
 */
export const Confirm = ({
  action,
  children,
  onConfirm,
  title,
  trigger
}: {
  readonly trigger: ReactElement
  readonly title: string
  readonly children: ReactNode
  /** The confirming button's label, which names the action. */
  readonly action: string
  readonly onConfirm: () => Promise<unknown>
}) => {
  const [open, setOpen] = useState(false)
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const confirm = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm()
      setOpen(false)
    } catch (reason) {
      setError(reason)
    }
    setBusy(false)
  }
  return (
    <AlertDialog.Root
      open={open}
      onOpenChange={(next) => {
        if (isBusy) return
        setOpen(next)
        setError(undefined)
      }}
    >
      <AlertDialog.Trigger render={trigger} />
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title className="dialog-title">{title}</AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="dialog-text">
            {children}
          </AlertDialog.Description>
          {error !== undefined && <Failure error={error} />}
          <div className="dialog-actions">
            <AlertDialog.Close className="button" disabled={isBusy}>
              Cancel
            </AlertDialog.Close>
            <button type="button" className="button danger" disabled={isBusy} onClick={() => void confirm()}>
              {action}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}
