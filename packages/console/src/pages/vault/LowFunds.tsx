import type { Asset } from "@card-rewards/domain/Money"
import type { VaultStatus } from "@card-rewards/domain/Vault"
import { type FormEvent, useState } from "react"
import { decimalsOf, parseMoney, printMoney } from "../../format/Money.ts"
import { useChange } from "../../session/Query.ts"
import { Failure } from "../../ui/Failure.tsx"
import { Field } from "../../ui/Field.tsx"
import { Submit } from "../../ui/Form.tsx"
import { Badge, Panel } from "../../ui/Panel.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { moneyOf } from "../useAsset.ts"

/** The threshold below which the integrator is told that free money is low. Another asset needs another React `key`. */
export const LowFunds = ({ asset, vault }: { readonly asset: Asset; readonly vault: VaultStatus }) => {
  const showToast = useToast()
  const [amount, setAmount] = useState("")
  const units = parseMoney(amount, asset)
  const threshold = vault.lowFunds.find((one) => one.asset === asset)?.threshold
  const set = useChange((api, units: bigint) =>
    api.vault.setLowFunds({ params: { asset }, payload: { threshold: units } })
  )
  const remove = useChange((api) => api.vault.removeLowFunds({ params: { asset } }))
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (units === undefined) return
    void set.mutateAsync(units).then(
      () => {
        setAmount("")
        showToast("Threshold set", printMoney(units, asset))
      },
      () => undefined
    )
  }
  return (
    <Panel
      title="Low funds"
      hint={<Threshold asset={asset} threshold={threshold} free={moneyOf(vault, asset).free} />}
      actions={
        threshold !== undefined && (
          <button type="button" className="button" disabled={remove.isPending} onClick={() => remove.mutate()}>
            Remove the threshold
          </button>
        )
      }
    >
      <form className="form" onSubmit={submit}>
        <div className="form-row inline">
          <Field
            label="Threshold"
            value={amount}
            onChange={setAmount}
            suffix={asset}
            inputMode="decimal"
            placeholder="1000.00"
            required
            problems={
              amount !== "" && units === undefined ? [`An amount with at most ${decimalsOf(asset)} decimals`] : []
            }
          />
          <Submit disabled={units === undefined || set.isPending}>Set</Submit>
        </div>
        {set.isError && <Failure error={set.error} />}
        {remove.isError && <Failure error={remove.error} />}
      </form>
    </Panel>
  )
}

const Threshold = ({
  asset,
  free,
  threshold
}: {
  readonly asset: Asset
  readonly free: bigint
  readonly threshold: bigint | undefined
}) => {
  if (threshold === undefined) return "No threshold. With one, an event is sent when free money falls below it."
  return (
    <>
      An event is sent when free money falls below {printMoney(threshold, asset)}.{" "}
      {free < threshold && <Badge tone="bad">Below it now</Badge>}
    </>
  )
}
