import { type FormEvent, useState } from "react"
import { Link, useLocation } from "wouter"
import { useHistoryState } from "../history/HistoryContext.ts"
import { Field } from "../ui/Field.tsx"
import { Empty, Page, Panel } from "../ui/Panel.tsx"
import { When } from "../ui/When.tsx"
import { userPath } from "./Paths.ts"

const usersShown = 50

/** Finds a user by id. The API has no list of users; the active ones are derived from the event log. */
export const Users = () => {
  const [, navigate] = useLocation()
  const { fold } = useHistoryState()
  const [userId, setUserId] = useState("")
  const wanted = userId.trim()
  const recent = [...fold.users]
    .reverse()
    .filter(([id]) => id.includes(wanted))
    .slice(0, usersShown)
  const open = (event: FormEvent) => {
    event.preventDefault()
    if (wanted !== "") navigate(userPath(wanted))
  }
  return (
    <Page title="Users" lead="What a user has, and how it came about. Users are known by your own ids alone.">
      <form className="search" onSubmit={open} role="search">
        <Field
          label="User id"
          hideLabel
          value={userId}
          onChange={setUserId}
          placeholder="Your id for the user"
          mono
        />
        <button type="submit" className="button primary" disabled={wanted === ""}>
          Open
        </button>
      </form>
      <Panel title="Recently active" hint="Users with a reward or a claim, latest first, from the event log." flush>
        {recent.length === 0 ? (
          <Empty title={fold.users.size === 0 ? "No user has earned yet" : "No user matches"}>
            {fold.users.size === 0
              ? "Users appear here with their first reward. Any enrolled user can be opened by id above."
              : "Press Open to look the id up in the API: users without rewards are not in the event log."}
          </Empty>
        ) : (
          <ul className="rows">
            {recent.map(([id, at]) => (
              <li key={id}>
                <Link href={userPath(id)} className="row">
                  <span className="mono strong">{id}</span>
                  <span className="muted">
                    <When at={at} />
                  </span>
                </Link>
              </li>
            ))}
          </ul>
        )}
      </Panel>
    </Page>
  )
}
