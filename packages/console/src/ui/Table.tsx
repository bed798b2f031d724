import type { ReactNode } from "react"
import { ZoneName } from "./Zone.tsx"

/** Lets a table scroll sideways, also with the keyboard, instead of widening the page. */
export const Scrollable = ({
  children,
  className = "table-scroll",
  label
}: {
  readonly label: string
  readonly className?: string
  readonly children: ReactNode
}) => (
  <div className={className} tabIndex={0} role="region" aria-label={label}>
    {children}
  </div>
)

/** A scrollable table: its column heads, and its rows as children. */
export const Table = ({
  children,
  heads,
  label
}: {
  readonly label: string
  readonly heads: ReactNode
  readonly children: ReactNode
}) => (
  <Scrollable label={label}>
    <table className="table">
      <thead>
        <tr>{heads}</tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </Scrollable>
)

/** The head of a column. */
export const Head = ({ children }: { readonly children: ReactNode }) => <th scope="col">{children}</th>

/** The head of a column of numbers, which are aligned to the right. */
export const NumberHead = ({ children }: { readonly children: ReactNode }) => (
  <th scope="col" className="number">
    {children}
  </th>
)

/** The head of a column of instants, with the time zone in which they are shown. */
export const TimeHead = ({ children }: { readonly children: string }) => (
  <Head>
    {children} (<ZoneName />)
  </Head>
)
