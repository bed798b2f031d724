import type { Asset } from "@card-rewards/domain/Money"
import { Link } from "wouter"
import { printMoney } from "../../format/Money.ts"
import { useSession } from "../../session/Session.ts"
import type { Runway } from "../../statements/Statement.ts"
import { When } from "../../ui/When.tsx"
import type { VaultMoney } from "../useAsset.ts"

/** The runway in a sentence, with the action to take. */
export const Outlook = ({
  money: { asset, free, waiting },
  pace
}: {
  readonly money: VaultMoney
  readonly pace: Runway | undefined
}) => {
  if (waiting > 0n) return <Short asset={asset} missing={waiting > free ? waiting - free : waiting} />
  if (pace === undefined) return undefined
  const rate = `${printMoney(pace.perDay, asset)} a day over the last ${pace.days === 1 ? "day" : `${pace.days} days`}`
  return (
    <div className="outlook">
      <p>
        {pace.until === undefined ? (
          <>
            <b>Runway of more than ten years</b> at {rate}.
          </>
        ) : (
          <>
            <b>
              Free money lasts until <When at={pace.until} part="day" />
            </b>{" "}
            at {rate}.
          </>
        )}
      </p>
    </div>
  )
}

const Short = ({ asset, missing }: { readonly asset: Asset; readonly missing: bigint }) => {
  const { environment } = useSession()
  return (
    <div className="outlook warn">
      <p>
        <b>Free money is short.</b> A deposit of {printMoney(missing, asset)} covers every reward that waits.
      </p>
      {environment === "sandbox" && (
        <Link href="/sandbox" className="button">
          Simulate a deposit
        </Link>
      )}
    </div>
  )
}
