import type { ApiKey } from "@card-rewards/domain/ApiKey"
import { ApiKeyName } from "@card-rewards/domain/Ids"
import { type FormEvent, type ReactNode, useState } from "react"
import { useChange } from "../../session/Query.ts"
import { useSession } from "../../session/Session.ts"
import { Confirm } from "../../ui/Dialog.tsx"
import { Failure } from "../../ui/Failure.tsx"
import { Choice, Field } from "../../ui/Field.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { Secret } from "../../ui/Secret.tsx"
import { useToast } from "../../ui/Toasts.tsx"
import { When } from "../../ui/When.tsx"

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
  const [newName, setNewName] = useState("")
  const [made, setMade] = useState<{ readonly name: string; readonly secret: string | undefined }>()
  const [switched, setSwitched] = useState(false)
  const showToast = useToast()
  const create = useChange((api, name: string) => api.apiKeys.create({ payload: { name: ApiKeyName.make(name) } }))
  const revoke = useChange((api, name: ApiKey["name"]) => api.apiKeys.revoke({ params: { name } }))
  const oldKey = active.find((key) => key.name === oldName)
  const newKey = keys.find((key) => key.name === made?.name)
  const used = newKey?.lastUsedAt !== undefined

  const submit = async (event: FormEvent) => {
    event.preventDefault()
    const name = newName.trim()
    const created = await create.mutateAsync(name).catch(() => undefined)
    if (created !== undefined) setMade({ name, secret: created.secret })
  }
  const finish = async (name: ApiKey["name"]) => {
    await revoke.mutateAsync(name)
    showToast("Rotation complete", `${name} is revoked, ${made?.name ?? ""} took its place.`)
    setMade(undefined)
    setNewName("")
    setSwitched(false)
  }
  const step = made === undefined ? 1 : used ? 3 : 2
  return (
    <Panel title="Rotate a key" hint="Three steps, none of which stops a request.">
      <ol className="steps">
        <Step number={1} current={step} title="Create the next key">
          {made === undefined ? (
            <form className="form" onSubmit={(event) => void submit(event)}>
              <div className="form-row">
                <Choice
                  label="Key to replace"
                  value={oldName}
                  onChange={setOldName}
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
              {create.isError && <Failure error={create.error} />}
              <div className="form-foot">
                <button type="submit" className="button primary" disabled={create.isPending || newName.trim() === ""}>
                  Create the key
                </button>
              </div>
            </form>
          ) : made.secret === undefined ? (
            <p>
              A key of the name <b>{made.name}</b> exists already. Its secret was shown when it was created; choose
              another name if it is lost.
            </p>
          ) : (
            <Secret label={`Key ${made.name}`} value={made.secret} />
          )}
        </Step>
        <Step number={2} current={step} title="Deploy it">
          {made !== undefined && (
            <>
              <p>
                Put it where your services read their key, and deploy them.{" "}
                {used ? (
                  <>
                    It was first seen in use <When at={newKey.lastUsedAt ?? 0} />.
                  </>
                ) : (
                  "It has not been used yet; this page checks every few seconds."
                )}
              </p>
              {made.secret !== undefined && !switched && (
                <button
                  type="button"
                  className="button"
                  onClick={() =>
                    made.secret !== undefined && void onSwitchKey(made.secret).then(() => setSwitched(true))
                  }
                >
                  Use it in this tab too
                </button>
              )}
            </>
          )}
        </Step>
        <Step number={3} current={step} title="Revoke the old key once it is unused">
          {made !== undefined && oldKey !== undefined && (
            <>
              <p>
                <b>{oldKey.name}</b> was last used{" "}
                {oldKey.lastUsedAt === undefined ? "never" : <When at={oldKey.lastUsedAt} />}. Times are exact to the
                minute: wait until this one stands still.
              </p>
              <Confirm
                trigger={
                  <button type="button" className="button">
                    Revoke {oldKey.name}
                  </button>
                }
                title={`Revoke the key ${oldKey.name}?`}
                action="Revoke"
                onConfirm={() => finish(oldKey.name)}
              >
                <p>It stops working within a minute, for good.</p>
                {!used && (
                  <p>
                    <b>{made.name} has not been used yet.</b> Services that still send the old key would be locked
                    out.
                  </p>
                )}
                {oldKey.last4 === last4 && (
                  <p>
                    <b>This tab still uses it</b>, and would have to be opened with another key.
                  </p>
                )}
              </Confirm>
            </>
          )}
        </Step>
      </ol>
    </Panel>
  )
}

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
