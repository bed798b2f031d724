import { NotFound, type Unavailable } from "@card-rewards/domain/Errors"
import type { IntegratorId, UserId } from "@card-rewards/domain/Ids"
import { laneOf } from "@card-rewards/domain/Lane"
import { instant } from "@card-rewards/domain/Time"
import {
  type Enrollment,
  ReferrerConflict,
  ReferrerNotEnrolled,
  sameAttributes,
  type User,
  type UserStored
} from "@card-rewards/domain/User"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { transaction, withinRequestDeadline } from "./Database.ts"
import { columnList, type Row } from "./Database/Table.ts"
import { lockLane } from "./Locks.ts"
import { integratorTime } from "./SandboxClock.ts"
import * as Tables from "./Tables.ts"
import { attributesOf } from "./Users/AttributeHistory.ts"

/**
 * Enrolled users and the history of their attributes (contract, section 2.3 and rule 3; decisions, section 3). Times
 * are the integrator's clock.
 */
export class Users extends Context.Service<Users, {
  /**
   * Enrolls a user or replaces its attributes; a repeat changes nothing. Stores an attribute record at enrollment and
   * at each change, ordered with the user's spend events by one sequence.
   */
  readonly put: (
    integratorId: IntegratorId,
    userId: UserId,
    enrollment: Enrollment
  ) => Effect.Effect<UserStored, ReferrerNotEnrolled | ReferrerConflict | Unavailable>
  /** A user, with `referredBy` where set. */
  readonly get: (integratorId: IntegratorId, userId: UserId) => Effect.Effect<User, NotFound | Unavailable>
}>()("@card-rewards/core/Users") {
  static readonly layer = Layer.effect(
    Users,
    Effect.gen(function*() {
      const run = Effect.provideService(SqlClient.SqlClient, yield* SqlClient.SqlClient)
      return Users.of({
        put: Effect.fn("Users.put")(put, run),
        get: Effect.fn("Users.get")(get, run)
      })
    })
  )
}

const shown = Tables.users.pick(
  "user_id",
  "tier",
  "country",
  "segment",
  "referred_by",
  "enrolled_at",
  "updated_at"
)
const replaced = Tables.users.pick("tier", "country", "segment", "updated_at")
const userKey = Tables.users.pick("integrator_id", "user_id")
const replacement = columnList({ ...userKey.columns, ...replaced.columns })
const record = Tables.userAttributes.pick("integrator_id", "user_id", "stored_at", "tier", "country", "segment")

const put = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId, enrollment: Enrollment) {
  yield* lockLane(integratorId, laneOf(userId))
  const now = yield* integratorTime(integratorId)
  const current = yield* select(integratorId, userId)
  if (current === undefined) {
    const user: User = { userId, ...enrollment, enrolledAt: now, updatedAt: now }
    yield* enroll(integratorId, user)
    return { user, outcome: "enrolled" as const }
  }
  if (enrollment.referredBy !== undefined && enrollment.referredBy !== current.referredBy) {
    return yield* new ReferrerConflict({ userId, message: "referredBy is set at enrollment and cannot change" })
  }
  if (sameAttributes(current, enrollment)) return { user: current, outcome: "unchanged" as const }
  const { enrolledAt, referredBy } = current
  const user: User = {
    userId,
    ...enrollment,
    ...(referredBy === undefined ? {} : { referredBy }),
    enrolledAt,
    // keeps the records' times in order if the machine's clock steps back
    updatedAt: now < current.updatedAt ? current.updatedAt : now
  }
  yield* replace(integratorId, user)
  return { user, outcome: "updated" as const }
}, transaction)

const get = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  return (yield* select(integratorId, userId)) ?? (yield* NotFound.of("user", userId))
}, withinRequestDeadline)

const select = Effect.fnUntraced(function*(integratorId: IntegratorId, userId: UserId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<Row<typeof shown>>`SELECT ${shown.names} FROM users
    WHERE integrator_id = ${integratorId} AND user_id = ${userId}`
  return row === undefined ? undefined : toUser(row)
})

const enroll = Effect.fnUntraced(function*(integratorId: IntegratorId, user: User) {
  const sql = yield* SqlClient.SqlClient
  const { referredBy } = user
  if (referredBy !== undefined) {
    const referrer = referredBy === user.userId ? undefined : yield* select(integratorId, referredBy)
    if (referrer === undefined) {
      return yield* new ReferrerNotEnrolled({ referredBy, message: "referredBy names no user enrolled earlier" })
    }
  }
  yield* sql`${Tables.users.insert([{ ...user, integratorId }])}`
  yield* addRecord(integratorId, user)
})

const replace = Effect.fnUntraced(function*(integratorId: IntegratorId, user: User) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE users u SET ${replaced.setFrom("t")}
    FROM ${replacement.unnest([{ ...user, integratorId }])}
    WHERE ${userKey.match("u", "t")}`
  yield* addRecord(integratorId, user)
})

const addRecord = Effect.fnUntraced(function*(integratorId: IntegratorId, user: User) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO user_attributes (arrival, ${record.names})
    SELECT nextval('arrivals'), ${record.names}
    FROM ${record.unnest([{ ...user, integratorId, storedAt: user.updatedAt }])}`
})

const toUser = (row: Row<typeof shown>): User => ({
  userId: row.userId,
  ...attributesOf(row),
  ...(row.referredBy === null ? {} : { referredBy: row.referredBy }),
  enrolledAt: instant(row.enrolledAt),
  updatedAt: instant(row.updatedAt)
})
