import { Collapsible } from "@base-ui/react/collapsible"
import type { Reading } from "./Frame.tsx"

/** A chart's numbers as a table, for screen readers and exact reading. */
export const DataTable = ({
  caption,
  count,
  read
}: {
  readonly caption: string
  readonly count: number
  readonly read: (index: number) => Reading
}) => (
  <Collapsible.Root className="data-table">
    <Collapsible.Trigger className="link">Show as table</Collapsible.Trigger>
    <Collapsible.Panel>
      <Rows caption={caption} readings={Array.from({ length: count }, (_, index) => read(index)).reverse()} />
    </Collapsible.Panel>
  </Collapsible.Root>
)

const Rows = ({ caption, readings }: { readonly caption: string; readonly readings: ReadonlyArray<Reading> }) => (
  <div className="table-scroll short" tabIndex={0} role="region" aria-label={caption}>
    <table className="table">
      <caption className="sr-only">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">When (UTC)</th>
          {readings[0]?.rows.map((row) => (
            <th key={row.label} scope="col" className="number">
              {row.label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {readings.map((reading, index) => (
          <tr key={index}>
            <td>{reading.title}</td>
            {reading.rows.map((row) => (
              <td key={row.label} className="number">
                {row.value}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
)
