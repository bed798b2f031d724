import { SpendEvent, type SpendEventKind } from "@card-rewards/domain/SpendEvent"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Schema } from "effect"
import { type FormEvent, useState } from "react"
import { Link } from "wouter"
import { parseMoney } from "../../format/Money.ts"
import { useHistoryState } from "../../history/HistoryContext.ts"
import { useChange } from "../../session/Query.ts"
import { Failure } from "../../ui/Failure.tsx"
import { Choice, Field } from "../../ui/Field.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { useNow } from "../../ui/useNow.ts"
import { userPath } from "../Paths.ts"

const kinds: ReadonlyArray<readonly [SpendEventKind, string]> = [
  ["clearing", "Clearing"],
  ["authorization", "Authorization"],
  ["incremental_authorization", "Incremental authorization"],
  ["reversal", "Reversal"],
  ["refund", "Refund"]
]

/** Sends a card event as a processor's integration would, at the sandbox clock's time. */
export const CardEvent = () => {
  const { fold } = useHistoryState()
  const known = fold.events[0]?.integratorId
  const now = useNow(1_000)
  const [kind, setKind] = useState<SpendEventKind>("clearing")
  const [values, setValues] = useState({
    integratorId: "",
    userId: "",
    transaction: "",
    refers: "",
    amount: "",
    currency: "USD",
    mcc: "5411",
    descriptor: "Corner shop"
  })
  const set = (name: keyof typeof values) => (value: string) => setValues({ ...values, [name]: value })
  const cents = parseMoney(values.amount, values.currency)
  const send = useChange((api, event: unknown) =>
    Effect.gen(function* () {
      const payload = yield* Schema.decodeUnknownEffect(SpendEvent)(event).pipe(
        Effect.mapError(({ message }) => ({ _tag: "InvalidRequest" as const, message }))
      )
      return { ...(yield* api.spendEvents.submit({ payload })), userId: payload.userId }
    })
  )
  const refers =
    kind === "refund" ? "originalTransactionId" : kind === "authorization" ? undefined : "authorizationId"
  const submit = (event: FormEvent) => {
    event.preventDefault()
    send.mutate({
      kind,
      integratorId: known ?? values.integratorId,
      userId: values.userId.trim(),
      externalTransactionId: values.transaction.trim(),
      amount: { currency: values.currency, amount: String(cents ?? "") },
      merchant: { descriptor: values.descriptor, mcc: values.mcc },
      occurredAt: printTimestamp(now),
      ...(refers === undefined || values.refers === "" ? {} : { [refers]: values.refers })
    })
  }
  return (
    <Panel title="Send a card event" hint="POST /v1/spend-events, at the sandbox clock’s time.">
      <form className="form" onSubmit={submit}>
        <div className="form-row pairs">
          <Choice label="Kind" value={kind} onChange={setKind} options={kinds} />
          <Field label="User id" value={values.userId} onChange={set("userId")} required mono />
          <Field
            label="Transaction id"
            value={values.transaction}
            onChange={set("transaction")}
            required
            mono
            placeholder="txn-1"
          />
          {refers !== undefined && (
            <Field
              label={
                kind === "refund"
                  ? "Cleared transaction"
                  : kind === "clearing"
                    ? "Authorization, if any"
                    : "Authorization"
              }
              value={values.refers}
              onChange={set("refers")}
              required={kind !== "clearing"}
              mono
            />
          )}
        </div>
        <div className="form-row narrow">
          <Field
            label="Amount"
            value={values.amount}
            onChange={set("amount")}
            inputMode="decimal"
            required
            placeholder="42.00"
            problems={values.amount !== "" && cents === undefined ? ["An amount as 42.00"] : []}
          />
          <Choice
            label="Currency"
            value={values.currency}
            onChange={set("currency")}
            options={[
              ["USD", "USD"],
              ["EUR", "EUR"],
              ["GBP", "GBP (earns nothing)"]
            ]}
          />
          <Field label="MCC" value={values.mcc} onChange={set("mcc")} inputMode="numeric" required mono />
        </div>
        <div className="form-row pairs">
          <Field label="Merchant" value={values.descriptor} onChange={set("descriptor")} required />
          {known === undefined && (
            <Field
              label="Integrator id"
              value={values.integratorId}
              onChange={set("integratorId")}
              required
              mono
              hint="As it was given with the first key."
            />
          )}
        </div>
        {send.isError && <Failure error={send.error} />}
        <div className="form-foot">
          {send.isSuccess && (
            <span className="hint" role="status">
              {send.data.duplicate ? "Known already; nothing changed." : "Accepted."} See{" "}
              <Link href={userPath(send.data.userId)}>{send.data.userId}</Link>.
            </span>
          )}
          <button
            type="submit"
            className="button"
            disabled={
              send.isPending || cents === undefined || values.userId.trim() === "" || values.transaction.trim() === ""
            }
          >
            Send
          </button>
        </div>
      </form>
    </Panel>
  )
}
