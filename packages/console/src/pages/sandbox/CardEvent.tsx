import { SpendEvent, type SpendEventKind } from "@card-rewards/domain/SpendEvent"
import { printTimestamp } from "@card-rewards/domain/Time"
import { Effect, Schema } from "effect"
import { useState } from "react"
import { Link } from "wouter"
import { useLatest } from "../../events/useLatest.ts"
import { parseMoney } from "../../format/Money.ts"
import { describe } from "../../session/Problem.ts"
import { useChange } from "../../session/Query.ts"
import { Choice, Field, type FieldProps } from "../../ui/Field.tsx"
import { Form, Submit } from "../../ui/Form.tsx"
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
const currencies = [
  ["USD", "USD"],
  ["EUR", "EUR"],
  ["GBP", "GBP (earns nothing)"]
] as const

/** Sends a card event as a processor's integration would, at the sandbox clock's time. */
export const CardEvent = () => {
  const knownIntegratorId = useLatest().data?.events[0]?.integratorId
  const now = useNow(1_000)
  const [draft, setDraft] = useState(emptyDraft)
  const [occurredAt, setOccurredAt] = useState<number>()
  const send = useSend()
  const change = (changes: Partial<Draft>) => {
    setDraft({ ...draft, ...changes })
    setOccurredAt(undefined)
  }
  const submit = () => {
    // the same event again is no other one, so that one without an answer can be repeated
    const at = occurredAt ?? now
    setOccurredAt(at)
    send.mutate(eventOf(draft, knownIntegratorId ?? draft.integratorId, at), {
      onError: (error) => {
        if (!describe(error).retry) setOccurredAt(undefined)
      }
    })
  }
  const typed: Typed = (name) => ({ value: draft[name], onChange: (value) => change({ [name]: value }) })
  return (
    <Panel title="Send a card event" hint="POST /v1/spend-events, at the sandbox clock’s time.">
      <Form
        change={send}
        onSubmit={submit}
        foot={
          <>
            {send.isSuccess && <Sent duplicate={send.data.duplicate} userId={send.data.userId} />}
            <Submit disabled={send.isPending || !isComplete(draft)}>Send</Submit>
          </>
        }
      >
        <div className="form-row pairs">
          <Choice label="Kind" value={draft.kind} onChange={(kind) => change({ kind })} options={kinds} />
          <Field label="User id" {...typed("userId")} required mono />
          <Field label="Transaction id" {...typed("transaction")} required mono placeholder="txn-1" />
          <OriginalField kind={draft.kind} typed={typed} />
        </div>
        <div className="form-row narrow">
          <AmountField draft={draft} typed={typed} />
          <Choice label="Currency" {...typed("currency")} options={currencies} />
          <Field label="MCC" {...typed("mcc")} inputMode="numeric" required mono />
        </div>
        <div className="form-row pairs">
          <Field label="Merchant" {...typed("descriptor")} required />
          {knownIntegratorId === undefined && (
            <Field
              label="Integrator id"
              {...typed("integratorId")}
              required
              mono
              hint="As it was given with the first key."
            />
          )}
        </div>
      </Form>
    </Panel>
  )
}

/** The form's fields as they are typed. */
interface Draft {
  readonly kind: SpendEventKind
  readonly integratorId: string
  readonly userId: string
  readonly transaction: string
  /** The id of the transaction to which the event refers. */
  readonly original: string
  readonly amount: string
  readonly currency: string
  readonly mcc: string
  readonly descriptor: string
}

const emptyDraft: Draft = {
  kind: "clearing",
  integratorId: "",
  userId: "",
  transaction: "",
  original: "",
  amount: "",
  currency: "USD",
  mcc: "5411",
  descriptor: "Corner shop"
}

/** A field's text, and how it is changed. */
type Typed = (name: Exclude<keyof Draft, "kind">) => Pick<FieldProps, "value" | "onChange">

const centsOf = ({ amount, currency }: Draft): bigint | undefined => parseMoney(amount, currency)

const isComplete = (draft: Draft): boolean =>
  centsOf(draft) !== undefined && draft.userId !== "" && draft.transaction !== ""

/** The event to send; its schema checks what the user typed. */
const eventOf = (draft: Draft, integratorId: string, occurredAt: number): unknown => {
  const original = originals[draft.kind]
  return {
    kind: draft.kind,
    integratorId,
    userId: draft.userId,
    externalTransactionId: draft.transaction,
    amount: { currency: draft.currency, amount: String(centsOf(draft) ?? "") },
    merchant: { descriptor: draft.descriptor, mcc: draft.mcc },
    occurredAt: printTimestamp(occurredAt),
    ...(original === undefined || draft.original === "" ? {} : { [original.property]: draft.original })
  }
}

/** The property that refers to an earlier transaction, and its label, for each kind of event that has one. */
const originals: Record<SpendEventKind, { readonly property: string; readonly label: string } | undefined> = {
  authorization: undefined,
  incremental_authorization: { property: "authorizationId", label: "Authorization" },
  clearing: { property: "authorizationId", label: "Authorization, if any" },
  reversal: { property: "authorizationId", label: "Authorization" },
  refund: { property: "originalTransactionId", label: "Cleared transaction" }
}

const useSend = () =>
  useChange((api, event: unknown) =>
    Effect.gen(function* () {
      const payload = yield* Schema.decodeUnknownEffect(SpendEvent)(event).pipe(
        Effect.mapError(({ message }) => ({ _tag: "InvalidRequest" as const, message }))
      )
      return { ...(yield* api.spendEvents.submit({ payload })), userId: payload.userId }
    })
  )

const OriginalField = ({ kind, typed }: { readonly kind: SpendEventKind; readonly typed: Typed }) => {
  const original = originals[kind]
  return (
    original !== undefined && (
      <Field label={original.label} {...typed("original")} required={kind !== "clearing"} mono />
    )
  )
}

const AmountField = ({ draft, typed }: { readonly draft: Draft; readonly typed: Typed }) => (
  <Field
    label="Amount"
    {...typed("amount")}
    inputMode="decimal"
    required
    placeholder="42.00"
    problems={draft.amount !== "" && centsOf(draft) === undefined ? ["An amount as 42.00"] : []}
  />
)

const Sent = ({ duplicate, userId }: { readonly duplicate: boolean; readonly userId: string }) => (
  <span className="hint" role="status">
    {duplicate ? "Stored before; nothing changed." : "Accepted."} See <Link href={userPath(userId)}>{userId}</Link>.
  </span>
)
