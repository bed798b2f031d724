import { UserId } from "@card-rewards/domain/Ids"
import { Enrollment } from "@card-rewards/domain/User"
import { Effect, Schema } from "effect"
import { useState } from "react"
import { Link } from "wouter"
import { useChange } from "../../session/Query.ts"
import { Field } from "../../ui/Field.tsx"
import { Form, Submit } from "../../ui/Form.tsx"
import { Panel } from "../../ui/Panel.tsx"
import { userPath } from "../Paths.ts"

const words = { enrolled: "Enrolled", updated: "Updated", unchanged: "Nothing changed for" }

/** Enrolls a user, or replaces the attributes of one. */
export const Enroll = () => {
  const [userId, setUserId] = useState("")
  const [tier, setTier] = useState("")
  const [country, setCountry] = useState("")
  const [segment, setSegment] = useState("")
  const enroll = useChange((api, id: string) =>
    Effect.gen(function* () {
      const given = {
        ...(tier === "" ? {} : { tier }),
        ...(country === "" ? {} : { country: country.toUpperCase() }),
        ...(segment === "" ? {} : { segment })
      }
      const payload = yield* Schema.decodeUnknownEffect(Enrollment)(given).pipe(
        Effect.mapError(() => ({
          _tag: "InvalidRequest" as const,
          message: "The country is an ISO 3166-1 code of two letters, as DE."
        }))
      )
      return yield* api.users.put({ params: { userId: UserId.make(id) }, payload })
    })
  )
  return (
    <Panel title="Enroll a user" hint="An attribute that is left out is cleared.">
      <Form
        change={enroll}
        onSubmit={() => enroll.mutate(userId)}
        foot={
          <>
            {enroll.isSuccess && (
              <span className="hint" role="status">
                {words[enroll.data.outcome]}{" "}
                <Link href={userPath(enroll.data.user.userId)}>{enroll.data.user.userId}</Link>.
              </span>
            )}
            <Submit disabled={enroll.isPending || userId === ""}>Enroll</Submit>
          </>
        }
      >
        <div className="form-row pairs">
          <Field label="User id" value={userId} onChange={setUserId} required mono />
          <Field label="Tier" value={tier} onChange={setTier} placeholder="gold" />
          <Field label="Country" value={country} onChange={setCountry} placeholder="DE" />
          <Field label="Segment" value={segment} onChange={setSegment} />
        </div>
      </Form>
    </Panel>
  )
}
