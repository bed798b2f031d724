import type { UserId } from "@card-rewards/domain/Ids"
import { type FormEvent, useState } from "react"
import { useLocation } from "wouter"
import { Field } from "../../ui/Field.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { transactionPath } from "../Paths.ts"

/** Opens one of the user's transactions by id. */
export const FindTransaction = ({ userId }: { readonly userId: UserId }) => {
  const [, navigate] = useLocation()
  const [transactionId, setTransactionId] = useState("")
  const open = (event: FormEvent) => {
    event.preventDefault()
    if (transactionId !== "") navigate(transactionPath(userId, transactionId))
  }
  return (
    <Panel title="Transaction" hint="What became of a purchase, and why it earned or did not.">
      <form className="form-row inline" onSubmit={open} role="search">
        <Field label="Transaction id" value={transactionId} onChange={setTransactionId} placeholder="txn-1" mono />
        <button type="submit" className="button" disabled={transactionId === ""}>
          Find
        </button>
      </form>
    </Panel>
  )
}
