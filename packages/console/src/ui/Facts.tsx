import type { ReactNode } from "react"

/** Facts with their names. */
export const Facts = ({ children }: { readonly children: ReactNode }) => <dl className="facts-list">{children}</dl>

/** One fact with its name. */
export const Fact = ({
  children,
  className,
  name
}: {
  readonly name: string
  readonly className?: string
  readonly children: ReactNode
}) => (
  <div>
    <dt>{name}</dt>
    <dd className={className}>{children}</dd>
  </div>
)
