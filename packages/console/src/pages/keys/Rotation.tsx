import type { ApiKey } from "@card-rewards/domain/ApiKey"
import { ApiKeyName } from "@card-rewards/domain/Ids"
import { type ReactNode, useState } from "react"
import { useChange } from "../../session/Query.ts"
import { useSession } from "../../session/Session.ts"
import { Confirm } from "../../ui/Dialog.tsx"
import { Choice, Field } from "../../ui/Field.tsx"
import { Form, Submit } from "../../ui/Form.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { Secret } from "../../ui/Secret.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { When } from "../../ui/When.tsx"

/** The key that was created, of which only this page has the secret. */
interface Created {
  readonly name: string
  readonly secret: string
}

/** Whether services use the new key: unknown once this tab has used it, whose requests count as use too. */
type Use = "unused" | "used" | "unknown"

/** A rotation in its three steps: create, deploy, revoke once unused. */
export const Rotation = ({
  keys,
  onSwitchKey
}: {
  readonly keys: ReadonlyArray<ApiKey>
  readonly onSwitchKey: (apiKey: string) => Promise<void>
}) => {
  const { last4 } = useSession()
  const active = keys.filter((key) => key.revokedAt === undefined)
  const [oldName, setOldName] = useState<string>(
    () => active.find((key) => key.last4 === last4)?.name ?? active[0]?.name ?? ""
  )
  const [created, setCreated] = useState<Created>()
  const [isOwnUse, setOwnUse] = useState(false)
  const oldKey = active.find((key) => key.name === oldName)
  const lastUsedAt = keys.find((key) => key.name === created?.name)?.lastUsedAt
  const use = isOwnUse ? "unknown" : lastUsedAt === undefined ? "unused" : "used"
  const step = created === undefined ? 1 : use === "used" ? 3 : 2
  return (
    <Panel title="Rotate a key" hint="Three steps, none of which stops a request.">
      <ol className="steps">
        <Step number={1} current={step} title="Create the next key">
          {created === undefined ? (
            <Create active={active} oldName={oldName} onOldName={setOldName} onCreated={setCreated} />
          ) : (
            <Secret label={`Key ${created.name}`} value={created.secret} />
          )}
        </Step>
        <Step number={2} current={step} title="Deploy it">
          {created !== undefined && (
            <Deploy
              created={created}
              lastUsedAt={lastUsedAt}
              use={use}
              onSwitchKey={(secret) => {
                setOwnUse(use !== "used")
                return onSwitchKey(secret)
              }}
            />
          )}
        </Step>
        <Step number={3} current={step} title="Revoke the old key once it is unused">
          {created !== undefined && oldKey !== undefined && (
            <RevokeOld
              oldKey={oldKey}
              newName={created.name}
              use={use}
              onRevoked={() => {
                setOldName(created.name)
                setCreated(undefined)
                setOwnUse(false)
              }}
            />
          )}
        </Step>
      </ol>
    </Panel>
  )
}

const Create = ({
  active,
  oldName,
  onCreated,
  onOldName
}: {
  readonly active: ReadonlyArray<ApiKey>
  readonly oldName: string
  readonly onOldName: (name: string) => void
  readonly onCreated: (created: Created) => void
}) => {
  const [newName, setNewName] = useState("")
  const [known, setKnown] = useState<string>()
  const name = newName.trim()
  const create = useChange((api) => api.apiKeys.create({ payload: { name: ApiKeyName.make(name) } }))
  const submit = () =>
    void create.mutateAsync().then(
      ({ secret }) => (secret === undefined ? setKnown(name) : onCreated({ name, secret })),
      () => undefined
    )
  return (
    <Form
      change={create}
      onSubmit={submit}
      foot={
        <Submit primary disabled={create.isPending || name === ""}>
          Create the key
        </Submit>
      }
    >
      <div className="form-row">
        <Choice
          label="Key to replace"
          value={oldName}
          onChange={onOldName}
          options={active.map((key) => [key.name, `${key.name} (…${key.last4})`] as const)}
        />
        <Field
          label="Name of the next key"
          value={newName}
          onChange={setNewName}
          placeholder="backend-2026-12"
          required
          mono
        />
      </div>
      {known !== undefined && (
        <p role="alert">
          A key of the name <b>{known}</b> exists already. If its secret never appeared here, revoke it. Choose another
          name for the next key.
        </p>
      )}
    </Form>
  )
}

const Deploy = ({
  created: { secret },
  lastUsedAt,
  onSwitchKey,
  use
}: {
  readonly created: Created
  readonly lastUsedAt: number | undefined
  readonly use: Use
  readonly onSwitchKey: (apiKey: string) => Promise<void>
}) => {
  const [state, setState] = useState<"other" | "switching" | "switched" | "failed">("other")
  const switchTab = () => {
    setState("switching")
    void onSwitchKey(secret).then(
      () => setState("switched"),
      () => setState("failed")
    )
  }
  return (
    <>
      <p>
        Put it where your services read their key, and deploy them.{" "}
        {use === "unknown" && "This tab uses it; whether your services do is not known from here."}
        {use === "unused" && "It has not been used yet; this page checks every few seconds."}
        {use === "used" && lastUsedAt !== undefined && (
          <>
            It was last used <When at={lastUsedAt} />.
          </>
        )}
      </p>
      {state !== "switched" && (
        <button type="button" className="button" onClick={switchTab} disabled={state === "switching"}>
          Use it in this tab too
        </button>
      )}
      {state === "failed" && <p role="alert">This tab could not be switched to it. Try again.</p>}
    </>
  )
}

const RevokeOld = ({
  newName,
  oldKey,
  onRevoked,
  use
}: {
  readonly oldKey: ApiKey
  readonly newName: string
  readonly use: Use
  readonly onRevoked: () => void
}) => {
  const { last4, name } = oldKey
  const isOfThisTab = useSession().last4 === last4
  const showToast = useToast()
  const revoke = useChange((api) => api.apiKeys.revoke({ params: { name } }))
  const confirm = async () => {
    await revoke.mutateAsync()
    showToast("Rotation complete", `${name} is revoked and replaced by ${newName}.`)
    onRevoked()
  }
  return (
    <>
      <p>
        <LastUse apiKey={oldKey} /> Times are exact to the minute: wait until this one stands still.
        {isOfThisTab && " This tab itself keeps it in use, until it uses the next one."}
      </p>
      <Confirm
        trigger={
          <button type="button" className="button">
            Revoke {name}
          </button>
        }
        title={`Revoke the key ${name}?`}
        action="Revoke"
        onConfirm={confirm}
      >
        <p>
          It stops working within a minute, for good. <LastUse apiKey={oldKey} />
        </p>
        {use !== "used" && (
          <p>
            <b>
              {use === "unused"
                ? `${newName} has not been used yet.`
                : `Whether your services use ${newName} is not known from here.`}
            </b>{" "}
            Services that still send the old key would be locked out.
          </p>
        )}
        {isOfThisTab && (
          <p>
            <b>This tab still uses it</b>, and would have to be opened with another key.
          </p>
        )}
      </Confirm>
    </>
  )
}

const LastUse = ({ apiKey: { lastUsedAt, name } }: { readonly apiKey: ApiKey }) =>
  lastUsedAt === undefined ? (
    <>
      <b>{name}</b> was never used.
    </>
  ) : (
    <>
      <b>{name}</b> was last used <When at={lastUsedAt} />.
    </>
  )

const Step = ({
  children,
  current,
  number,
  title
}: {
  readonly number: number
  readonly current: number
  readonly title: string
  readonly children: ReactNode
}) => (
  <li
    className="step"
    data-state={number < current ? "done" : number === current ? "current" : "later"}
    aria-current={number === current ? "step" : undefined}
  >
    <h3>{title}</h3>
    {children}
  </li>
)
