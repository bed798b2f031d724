import type { ReactNode } from "react"

/** Adds a row. */
export const Add = ({ children, onClick }: { readonly children: string; readonly onClick: () => void }) => (
  <button type="button" className="button small" onClick={onClick}>
    {children}
  </button>
)

/** Rows of fields under common heads. */
export const Rows = ({
  children,
  className,
  heads
}: {
  readonly children: ReactNode
  readonly className: string
  readonly heads: ReadonlyArray<string>
}) => (
  <div className="form-rows">
    <div className={`form-grid ${className}`} style={{ "--columns": heads.length } as Record<string, number>}>
      <div className="form-grid-row heads" aria-hidden>
        {heads.map((head, index) => (
          <span key={index} className="label">
            {head}
          </span>
        ))}
        <span />
      </div>
      {children}
    </div>
  </div>
)

/** One row, which can be removed. */
export const Row = ({
  children,
  name,
  onRemove
}: {
  readonly children: ReactNode
  readonly name: string
  readonly onRemove: () => void
}) => (
  <div className="form-grid-row" role="group" aria-label={name}>
    {children}
    <button type="button" className="button small quiet" aria-label={`Remove ${name}`} onClick={onRemove}>
      Remove
    </button>
  </div>
)
