import { Reference, UserId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { type FormEvent, useState } from "react"
import { parseMoney, printMoney } from "../../format/Money.ts"
import { useChange, useRead } from "../../session/Query.ts"
import { machineMillis } from "../../session/Machine.ts"
import { Failure } from "../../ui/Failure.tsx"
import { Choice, Field } from "../../ui/Field.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { Segments } from "../../ui/Segments.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { assetOptions } from "../useAsset.ts"

type Kind = "deposit" | "withdraw" | "claim"
const kinds = [
  ["deposit", "Deposit"],
  ["withdraw", "Withdraw"],
  ["claim", "Claim"]
] as const
const hints: Record<Kind, string> = {
  deposit: "Rewards that wait are reserved first in, first out.",
  withdraw: "Takes free money only.",
  claim: "Pays the user’s oldest claimable rewards first, in part or all."
}

let references = 0

/** Simulates a movement of the vault. */
export const Move = () => {
  const [kind, setKind] = useState<Kind>("deposit")
  const [asset, setAsset] = useState<Asset>("USDC")
  const [amount, setAmount] = useState("")
  const [userId, setUserId] = useState("")
  const [reference, setReference] = useState(() => newReference())
  const showToast = useToast()
  const units = parseMoney(amount, asset)
  const balance = useRead(
    ["balance", userId],
    (api) => api.users.balance({ params: { userId: UserId.make(userId) } }),
    { everyMillis: 2_000, enabled: kind === "claim" && userId !== "" }
  )
  const claimable = balance.data?.balances.find((entry) => entry.asset === asset)?.claimable
  const move = useChange((api, input: { units: bigint }) => {
    const payload = { reference: Reference.make(reference), amount: { asset, amount: input.units } }
    return Effect.gen(function* () {
      if (kind === "deposit") return yield* api.sandbox.deposit({ payload })
      if (kind === "withdraw") return yield* api.sandbox.withdraw({ payload })
      return yield* api.sandbox.claim({ payload: { ...payload, userId: UserId.make(userId) } })
    })
  })
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    if (units === undefined) return
    const recorded = await move.mutateAsync({ units }).catch(() => undefined)
    if (recorded === undefined) return
    showToast(
      recorded.duplicate ? "Recorded before" : `${kinds.find(([value]) => value === kind)?.[1] ?? ""} recorded`,
      recorded.duplicate
        ? "This exact request had been recorded; nothing changed."
        : `${printMoney(units, asset)} as ${recorded.reference}`
    )
    setAmount("")
    setReference(newReference())
  }
  return (
    <Panel
      title="Vault"
      hint={hints[kind]}
      actions={
        <Segments
          label="Movement"
          value={kind}
          onChange={(next) => {
            setKind(next)
            move.reset()
          }}
          options={kinds}
        />
      }
    >
      <form className="form" onSubmit={(event) => void submit(event)}>
        {kind === "claim" && (
          <Field
            label="User id"
            value={userId}
            onChange={setUserId}
            required
            mono
            hint={
              claimable === undefined ? undefined : (
                <>
                  Claimable: {printMoney(claimable, asset)}{" "}
                  <button
                    type="button"
                    className="link"
                    onClick={() => setAmount(printMoney(claimable, asset).split(" ")[0] ?? "")}
                  >
                    all of it
                  </button>
                </>
              )
            }
          />
        )}
        <div className="form-row">
          <Choice label="Asset" value={asset} onChange={setAsset} options={assetOptions} />
          <Field
            label="Amount"
            value={amount}
            onChange={setAmount}
            suffix={asset}
            inputMode="decimal"
            required
            placeholder="100.00"
            problems={
              amount !== "" && units === undefined
                ? [`An amount with at most ${asset === "USDC" ? 6 : 18} decimals, as 1250.50`]
                : []
            }
          />
        </div>
        <Field
          label="Reference"
          value={reference}
          onChange={setReference}
          required
          mono
          hint="Unique in the vault: the same request again changes nothing."
        />
        {move.isError && <Failure error={move.error} />}
        <div className="form-foot">
          <button
            type="submit"
            className="button primary"
            disabled={
              units === undefined || move.isPending || reference === "" || (kind === "claim" && userId === "")
            }
          >
            {kinds.find(([value]) => value === kind)?.[1]}
            {units === undefined ? "" : ` ${printMoney(units, asset)}`}
          </button>
        </div>
      </form>
    </Panel>
  )
}

const newReference = (): string => `console-${machineMillis().toString(36)}-${++references}`
