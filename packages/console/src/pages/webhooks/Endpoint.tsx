import type { WebhookEndpoint } from "@card-rewards/domain/WebhookEndpoint"
import { type FormEvent, useState } from "react"
import { machineMillis } from "../../session/Machine.ts"
import { useChange, useUnrepeatableChange } from "../../session/Query.ts"
import { Confirm } from "../../ui/Dialog.tsx"
import { Failure } from "../../ui/Failure.tsx"
import { Field } from "../../ui/Field.tsx"
import { Badge, Panel } from "../../ui/Panel.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { When } from "../../ui/When.tsx"

/** The endpoint, with its actions: change the URL, rotate the secret, ping, delete. */
export const Endpoint = ({
  endpoint,
  onDelete,
  onDeleted,
  onSecret
}: {
  readonly endpoint: WebhookEndpoint
  /** Before the request, and after its success. */
  readonly onDelete: () => void
  readonly onDeleted: () => void
  readonly onSecret: (secret: string, replacedUntil: number | undefined) => void
}) => {
  const showToast = useToast()
  const ping = useUnrepeatableChange((api) => api.webhookEndpoints.ping({ params: { id: endpoint.id } }))
  const sendPing = () =>
    void ping.mutateAsync().then(
      ({ eventId }) => showToast("Ping sent", eventId),
      () => undefined
    )
  return (
    <Panel
      title={`Endpoint ${endpoint.id}`}
      hint={
        <>
          Created <When at={endpoint.createdAt} />
          <Replaced until={endpoint.previousSecretExpiresAt} />. <Lag events={endpoint.lag} />
        </>
      }
      actions={
        <>
          <button type="button" className="button" disabled={ping.isPending} onClick={sendPing}>
            Send a ping
          </button>
          <RotateSecret endpoint={endpoint} onSecret={onSecret} />
          <Delete endpoint={endpoint} onDelete={onDelete} onDeleted={onDeleted} />
        </>
      }
    >
      <Address endpoint={endpoint} />
      {ping.isError && <Failure error={ping.error} />}
    </Panel>
  )
}

/** Until when the previous secret signs too, or that it has expired; by real time, not the sandbox clock. */
const Replaced = ({ until }: { readonly until: number | undefined }) =>
  until !== undefined && (
    <>
      . The replaced secret {until > machineMillis() ? "signs" : "signed"} until <When at={until} />
    </>
  )

/** How many events the endpoint is behind; nothing where the service does not say it. */
const Lag = ({ events }: { readonly events: number | undefined }) => {
  if (events === undefined) return null
  if (events === 0) return "Up to date with the event log."
  const count = `${events.toLocaleString("en")} ${events === 1 ? "event" : "events"}`
  return <Badge tone="wait">{`${count} behind the event log`}</Badge>
}

const RotateSecret = ({
  endpoint: { id },
  onSecret
}: {
  readonly endpoint: WebhookEndpoint
  readonly onSecret: (secret: string, replacedUntil: number | undefined) => void
}) => {
  const rotate = useUnrepeatableChange((api) => api.webhookEndpoints.rotateSecret({ params: { id } }))
  const confirm = async () => {
    const { endpoint, secret } = await rotate.mutateAsync()
    onSecret(secret, endpoint.previousSecretExpiresAt)
  }
  return (
    <Confirm
      trigger={
        <button type="button" className="button">
          Rotate secret
        </button>
      }
      title="Rotate the signing secret?"
      action="Rotate"
      onConfirm={confirm}
    >
      <p>
        A new secret signs within a minute and is shown once. The present one keeps signing for 24 hours, so that
        receivers can be moved over without a gap.
      </p>
    </Confirm>
  )
}

const Delete = ({
  endpoint: { id },
  onDelete,
  onDeleted
}: {
  readonly endpoint: WebhookEndpoint
  readonly onDelete: () => void
  readonly onDeleted: () => void
}) => {
  const remove = useChange((api) => api.webhookEndpoints.remove({ params: { id } }))
  const confirm = async () => {
    onDelete()
    await remove.mutateAsync()
    onDeleted()
  }
  return (
    <Confirm
      trigger={
        <button type="button" className="button">
          Delete
        </button>
      }
      title={`Delete the endpoint ${id}?`}
      action="Delete"
      onConfirm={confirm}
    >
      <p>Deliveries stop within a minute, and those that wait are cancelled. The events themselves are kept.</p>
    </Confirm>
  )
}

const Address = ({ endpoint }: { readonly endpoint: WebhookEndpoint }) => {
  const showToast = useToast()
  /** The typed URL; undefined while the field shows the endpoint's own. */
  const [draft, setDraft] = useState<string>()
  const url = draft ?? endpoint.url
  const update = useChange((api, next: string) =>
    api.webhookEndpoints.update({ params: { id: endpoint.id }, payload: { url: next } })
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (url.trim() === endpoint.url) return
    void update.mutateAsync(url.trim()).then(
      () => {
        setDraft(undefined)
        showToast("URL changed", "Waiting deliveries go there within a minute.")
      },
      () => undefined
    )
  }
  return (
    <form className="form" onSubmit={submit}>
      <div className="form-row inline">
        <Field label="URL" type="url" value={url} onChange={setDraft} required mono />
        <button type="submit" className="button" disabled={url.trim() === endpoint.url || update.isPending}>
          Change
        </button>
      </div>
      {update.isError && <Failure error={update.error} />}
    </form>
  )
}
