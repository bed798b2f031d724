import type { ReactNode } from "react"

/** A titled part of a page. */
export const Panel = ({
  actions,
  children,
  flush = false,
  hint,
  title
}: {
  readonly title: string
  readonly hint?: ReactNode
  readonly actions?: ReactNode
  /** Omits the padding around the content, for tables. */
  readonly flush?: boolean
  readonly children: ReactNode
}) => (
  <section className="panel" data-flush={flush}>
    <header className="panel-head">
      <div>
        <h2>{title}</h2>
        {hint !== undefined && <p className="hint">{hint}</p>}
      </div>
      {actions !== undefined && <div className="actions">{actions}</div>}
    </header>
    <div className="panel-body">{children}</div>
  </section>
)

/** A page's head. */
export const Page = ({
  actions,
  children,
  lead,
  title
}: {
  readonly title: ReactNode
  readonly lead?: ReactNode
  readonly actions?: ReactNode
  readonly children: ReactNode
}) => (
  <>
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {lead !== undefined && <p className="lead">{lead}</p>}
      </div>
      {actions !== undefined && <div className="actions">{actions}</div>}
    </header>
    {children}
  </>
)

/** Shown where there is no content yet: the reason, and the next action. */
export const Empty = ({
  action,
  children,
  title
}: {
  readonly title: string
  readonly children: ReactNode
  readonly action?: ReactNode
}) => (
  <div className="empty">
    <p className="empty-title">{title}</p>
    <p>{children}</p>
    {action}
  </div>
)

export const Badge = ({ children, tone = "plain" }: { readonly children: ReactNode; readonly tone?: string }) => (
  <span className={`badge ${tone}`}>
    <i aria-hidden />
    {children}
  </span>
)

/** One number with its name. */
export const Stat = ({
  children,
  color,
  hint,
  label
}: {
  readonly label: string
  readonly children: ReactNode
  readonly color?: string | undefined
  readonly hint?: ReactNode
}) => (
  <div className="stat">
    <dt>
      {color !== undefined && <i className={`swatch ${color}`} />}
      {label}
    </dt>
    <dd>
      <span className="stat-value">{children}</span>
      {hint !== undefined && <span className="stat-hint">{hint}</span>}
    </dd>
  </div>
)
