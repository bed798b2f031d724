import { Reference, UserId } from "@card-rewards/domain/Ids"
import type { Asset } from "@card-rewards/domain/Money"
import { Effect } from "effect"
import { useState } from "react"
import { parseMoney, printMoney } from "../../format/Money.ts"
import { machineMillis } from "../../session/Machine.ts"
import { useChange, useRead } from "../../session/Query.ts"
import { Choice, Field } from "../../ui/Field.tsx"
import { Form, Submit } from "../../ui/Form.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { Segments } from "../../ui/Segments.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { assetOptions } from "../useAsset.ts"

type Kind = "deposit" | "withdraw" | "claim"
const names: Record<Kind, string> = { deposit: "Deposit", withdraw: "Withdraw", claim: "Claim" }
const kinds = [
  ["deposit", names.deposit],
  ["withdraw", names.withdraw],
  ["claim", names.claim]
] as const
const hints: Record<Kind, string> = {
  deposit: "Rewards that wait are reserved first in, first out.",
  withdraw: "Takes free money only.",
  claim: "Pays the user’s oldest claimable rewards first, in part or all."
}
const amountProblem: Record<Asset, string> = {
  USDC: "An amount with at most 6 decimals, as 1250.50",
  EURe: "An amount with at most 18 decimals, as 1250.50"
}

let references = 0

/** Simulates a movement of the vault. */
export const Move = () => {
  const [kind, setKind] = useState<Kind>("deposit")
  const [asset, setAsset] = useState<Asset>("USDC")
  const [amount, setAmount] = useState("")
  const [userId, setUserId] = useState("")
  const [reference, setReference] = useState(() => newReference())
  const units = parseMoney(amount, asset)
  const { move, record } = useMove()
  const isComplete = units !== undefined && reference !== "" && (kind !== "claim" || userId !== "")
  const submit = async () => {
    if (units === undefined || !(await record({ kind, asset, units, userId, reference }))) return
    setAmount("")
    setReference(newReference())
  }
  const choose = (next: Kind) => {
    setKind(next)
    move.reset()
  }
  return (
    <Panel
      title="Vault"
      hint={hints[kind]}
      actions={<Segments label="Movement" value={kind} onChange={choose} options={kinds} />}
    >
      <Form
        change={move}
        onSubmit={() => void submit()}
        foot={
          <Submit primary disabled={!isComplete || move.isPending}>
            {names[kind]}
            {units === undefined ? "" : ` ${printMoney(units, asset)}`}
          </Submit>
        }
      >
        {kind === "claim" && (
          <ClaimingUser userId={userId} onUserId={setUserId} asset={asset} onAmount={setAmount} />
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
            problems={amount !== "" && units === undefined ? [amountProblem[asset]] : []}
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
      </Form>
    </Panel>
  )
}

/** The user who claims, with what can be claimed and a button that types that amount. */
const ClaimingUser = ({
  asset,
  onAmount,
  onUserId,
  userId
}: {
  readonly userId: string
  readonly onUserId: (userId: string) => void
  readonly asset: Asset
  readonly onAmount: (amount: string) => void
}) => {
  const balance = useRead(
    ["balance", userId],
    (api) => api.users.balance({ params: { userId: UserId.make(userId) } }),
    { everyMillis: 2_000, enabled: userId !== "" }
  )
  const claimable = balance.data?.balances.find((entry) => entry.asset === asset)?.claimable
  const text = claimable === undefined ? "" : printMoney(claimable, asset)
  const hint = (
    <>
      Claimable: {text}{" "}
      <button type="button" className="link" onClick={() => onAmount(text.split(" ")[0] ?? "")}>
        all of it
      </button>
    </>
  )
  return (
    <Field
      label="User id"
      value={userId}
      onChange={onUserId}
      required
      mono
      hint={claimable === undefined ? undefined : hint}
    />
  )
}

/** A movement as it was typed. */
interface Movement {
  readonly kind: Kind
  readonly asset: Asset
  readonly units: bigint
  readonly userId: string
  readonly reference: string
}

/** Records a movement, and tells the user; false where it failed. */
const useMove = () => {
  const showToast = useToast()
  const move = useChange((api, { asset, kind, reference, units, userId }: Movement) => {
    const payload = { reference: Reference.make(reference), amount: { asset, amount: units } }
    return Effect.gen(function* () {
      if (kind === "deposit") return yield* api.sandbox.deposit({ payload })
      if (kind === "withdraw") return yield* api.sandbox.withdraw({ payload })
      return yield* api.sandbox.claim({ payload: { ...payload, userId: UserId.make(userId) } })
    })
  })
  const record = async (movement: Movement): Promise<boolean> => {
    const recorded = await move.mutateAsync(movement).catch(() => undefined)
    if (recorded === undefined) return false
    const { asset, kind, units } = movement
    if (recorded.duplicate) showToast("Recorded before", "This exact request had been recorded; nothing changed.")
    else showToast(`${names[kind]} recorded`, `${printMoney(units, asset)} as ${recorded.reference}`)
    return true
  }
  return { move, record }
}

const newReference = (): string => `console-${machineMillis().toString(36)}-${++references}`
