import { Collapsible } from "@base-ui/react/collapsible"
import { Head, NumberHead, Scrollable } from "../ui/Table.tsx"
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
  <Scrollable label={caption} className="table-scroll short">
    <table className="table">
      <caption className="sr-only">{caption}</caption>
      <thead>
        <tr>
          <Head>When (UTC)</Head>
          {readings[0]?.rows.map(({ label }) => (
            <NumberHead key={label}>{label}</NumberHead>
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
  </Scrollable>
)
