import type { ProgramDefinition } from "@card-rewards/domain/Program"
import type { ReactNode } from "react"
import { printFactor, printRate } from "../../format/Money.ts"
import { Money } from "../../ui/Money.tsx"
import { Head, NumberHead, Scrollable } from "../../ui/Table.tsx"

/** A row for each tier and a column for each category; below the rates, the categories' MCCs and caps. */
export const RateMatrix = ({
  definition,
  name
}: {
  readonly definition: ProgramDefinition
  readonly name: string
}) => {
  const { asset, baseRate, caps, categories, categoryRates, tiers } = definition
  return (
    <Scrollable label={`Rates of ${name}`}>
      <table className="table matrix">
        <caption className="sr-only">Rates of {name}</caption>
        <thead>
          <tr>
            <Head>Rates</Head>
            <NumberHead>Multiplier</NumberHead>
            <NumberHead>Base</NumberHead>
            {categories.map(({ id }) => (
              <NumberHead key={id}>{id}</NumberHead>
            ))}
          </tr>
        </thead>
        <tbody>
          <Row name="Everyone">
            <td className="number muted">1×</td>
            <Rate rate={baseRate} />
            <CategoryRates categories={categories} rates={categoryRates} />
          </Row>
          {tiers.map((tier) => (
            <Row key={tier.tier} name={tier.tier}>
              <td className="number">{printFactor(tier.multiplier)}</td>
              <Rate rate={tier.baseRate} />
              <CategoryRates categories={categories} rates={tier.categoryRates} />
            </Row>
          ))}
          {categories.length > 0 && (
            <Row name="MCCs" className="muted">
              <td />
              <td />
              {categories.map(({ id, mccs }) => (
                <td key={id} className="number mono">
                  {mccs.join(" ")}
                </td>
              ))}
            </Row>
          )}
          {categories.length > 0 && (
            <Row name="Cap per month and user">
              <td />
              <td />
              {categories.map(({ id }) => (
                <Cap key={id} asset={asset} perMonth={entryOf(caps.categories, id)?.perMonth} />
              ))}
            </Row>
          )}
        </tbody>
      </table>
    </Scrollable>
  )
}

const Row = ({
  children,
  className,
  name
}: {
  readonly name: string
  readonly className?: string
  readonly children: ReactNode
}) => (
  <tr className={className}>
    <th scope="row">{name}</th>
    {children}
  </tr>
)

const CategoryRates = ({
  categories,
  rates
}: {
  readonly categories: ProgramDefinition["categories"]
  readonly rates: ProgramDefinition["categoryRates"] | undefined
}) => categories.map(({ id }) => <Rate key={id} rate={entryOf(rates, id)?.rate} />)

const entryOf = <A extends { readonly categoryId: string }>(
  entries: ReadonlyArray<A> | undefined,
  categoryId: string
): A | undefined => entries?.find((entry) => entry.categoryId === categoryId)

const Rate = ({ rate }: { readonly rate: number | undefined }) => (
  <td className={rate === undefined ? "number muted" : "number strong"}>
    {rate === undefined ? "–" : printRate(rate)}
  </td>
)

const Cap = ({ asset, perMonth }: { readonly asset: string; readonly perMonth: bigint | undefined }) => (
  <td className="number">
    {perMonth === undefined ? <span className="muted">–</span> : <Money amount={perMonth} unit={asset} />}
  </td>
)
