import type { ProgramDefinition } from "@card-rewards/domain/Program"
import type { ReactNode } from "react"
import { printFactor, printRate } from "../../format/Money.ts"
import { Money } from "../../ui/Money.tsx"
import { When } from "../../ui/When.tsx"

/** A published version: its rates as a matrix, and its limits. */
export const Definition = ({
  definition,
  name
}: {
  readonly definition: ProgramDefinition
  readonly name: string
}) => {
  const { asset, campaigns, caps, categories, eligibility, exclusions, tiers } = definition
  const rate = (rates: ReadonlyArray<{ categoryId: string; rate: number }> | undefined, id: string) =>
    rates?.find((entry) => entry.categoryId === id)?.rate
  const capOf = (id: string) => caps.categories.find((cap) => cap.categoryId === id)?.perMonth
  return (
    <div className="definition">
      <div className="table-scroll" tabIndex={0} role="region" aria-label={`Rates of ${name}`}>
        <table className="table matrix">
          <caption className="sr-only">Rates of {name}</caption>
          <thead>
            <tr>
              <th scope="col">Rates</th>
              <th scope="col" className="number">
                Multiplier
              </th>
              <th scope="col" className="number">
                Base
              </th>
              {categories.map((category) => (
                <th key={category.id} scope="col" className="number">
                  {category.id}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Everyone</th>
              <td className="number muted">1×</td>
              <td className="number strong">{printRate(definition.baseRate)}</td>
              {categories.map((category) => (
                <Rate key={category.id} rate={rate(definition.categoryRates, category.id)} />
              ))}
            </tr>
            {tiers.map((tier) => (
              <tr key={tier.tier}>
                <th scope="row">{tier.tier}</th>
                <td className="number">{printFactor(tier.multiplier)}</td>
                <Rate rate={tier.baseRate} />
                {categories.map((category) => (
                  <Rate key={category.id} rate={rate(tier.categoryRates, category.id)} />
                ))}
              </tr>
            ))}
            {categories.length > 0 && (
              <tr className="muted">
                <th scope="row">MCCs</th>
                <td />
                <td />
                {categories.map((category) => (
                  <td key={category.id} className="number mono">
                    {category.mccs.join(" ")}
                  </td>
                ))}
              </tr>
            )}
            <tr>
              <th scope="row">Cap per month and user</th>
              <td />
              <td className="number">
                <Money amount={caps.perMonth} unit={asset} />
              </td>
              {categories.map((category) => (
                <td key={category.id} className="number">
                  {capOf(category.id) === undefined ? (
                    <span className="muted">–</span>
                  ) : (
                    <Money amount={capOf(category.id) ?? 0n} unit={asset} />
                  )}
                </td>
              ))}
            </tr>
          </tbody>
        </table>
      </div>
      <dl className="facts-list">
        <Fact name="Holding period">{definition.holdingPeriodDays} days</Fact>
        <Fact name="Excluded MCCs">
          {exclusions.mccs.length === 0 ? "none" : <span className="mono">{exclusions.mccs.join(" ")}</span>}
        </Fact>
        <Fact name="Countries">{list(eligibility?.countries)}</Fact>
        <Fact name="Segments">{list(eligibility?.segments)}</Fact>
        {campaigns.map((campaign) => (
          <Fact key={campaign.id} name={`Campaign ${campaign.id}`}>
            + {printRate(campaign.bonusRate)}{" "}
            {campaign.categoryIds === undefined ? "on everything" : `on ${campaign.categoryIds.join(", ")}`} from{" "}
            <When at={campaign.startsAt} /> until <When at={campaign.endsAt} />
          </Fact>
        ))}
      </dl>
    </div>
  )
}

const list = (values: ReadonlyArray<string> | undefined): string =>
  values === undefined || values.length === 0 ? "all" : values.join(", ")

const Rate = ({ rate }: { readonly rate: number | undefined }) => (
  <td className={rate === undefined ? "number muted" : "number strong"}>
    {rate === undefined ? "–" : printRate(rate)}
  </td>
)

const Fact = ({ children, name }: { readonly name: string; readonly children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)
