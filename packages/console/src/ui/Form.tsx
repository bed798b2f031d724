import type { ReactNode, Ref } from "react"
import { Failure } from "./Failure.tsx"

/** Fields of one change; below them the failure of the last attempt, and the foot with the submit button. */
export const Form = ({
  change,
  children,
  foot,
  onSubmit,
  ref
}: {
  readonly change: { readonly isError: boolean; readonly error: unknown }
  readonly onSubmit: () => void
  readonly foot: ReactNode
  readonly children: ReactNode
  readonly ref?: Ref<HTMLFormElement>
}) => (
  <form
    className="form"
    ref={ref}
    onSubmit={(event) => {
      event.preventDefault()
      onSubmit()
    }}
  >
    {children}
    {change.isError && <Failure error={change.error} />}
    <div className="form-foot">{foot}</div>
  </form>
)

/** The button that submits the form around it. */
export const Submit = ({
  children,
  disabled,
  primary = false
}: {
  readonly disabled: boolean
  /** Whether it is the page's main action. */
  readonly primary?: boolean
  readonly children: ReactNode
}) => (
  <button type="submit" className={primary ? "button primary" : "button"} disabled={disabled}>
    {children}
  </button>
)
