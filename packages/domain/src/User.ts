import { Schema } from "effect"
import { Country, StoredCountry } from "./Country.ts"
import { text, UserId } from "./Ids.ts"
import { Timestamp } from "./Time.ts"

/** The attributes of a user on which rewards depend, at the time of a purchase. */
export const Attributes = Schema.Struct({
  tier: Schema.optionalKey(text(1, 128)),
  country: Schema.optionalKey(StoredCountry),
  segment: Schema.optionalKey(text(1, 128))
})
export type Attributes = typeof Attributes.Type

/** A user (contract, section 2.3). */
export const User = Schema.Struct({
  userId: UserId,
  ...Attributes.fields,
  referredBy: Schema.optionalKey(UserId),
  enrolledAt: Timestamp,
  updatedAt: Timestamp
}).annotate({
  identifier: "User",
  expected: "an object",
  description: "A user of the integrator."
})
export type User = typeof User.Type

/** Request body of `PUT /v1/users/{userId}`. An omitted attribute is cleared; `referredBy` is set once. */
export const Enrollment = Schema.Struct({
  ...Attributes.fields,
  country: Schema.optionalKey(Country),
  referredBy: Schema.optionalKey(UserId)
}).annotate({
  identifier: "Enrollment",
  expected: "an object",
  description: "The user's attributes. An omitted attribute is cleared; `referredBy` is set once, at enrollment."
})
export type Enrollment = typeof Enrollment.Type

/** Response of `PUT /v1/users/{userId}`. */
export const UserStored = Schema.Struct({
  user: User,
  outcome: Schema.Literals(["enrolled", "updated", "unchanged"])
}).annotate({
  identifier: "UserStored",
  expected: "an object",
  description: "The user as it is now, and what the request changed."
})
export type UserStored = typeof UserStored.Type

/** 422: the user is not enrolled. */
export class UserNotEnrolled extends Schema.TaggedError<UserNotEnrolled>()("UserNotEnrolled", {
  message: Schema.String,
  userId: Schema.String
}, { httpApiStatus: 422 }) {}

/** 422: `referredBy` is not a user that was enrolled earlier. */
export class ReferrerNotEnrolled extends Schema.TaggedError<ReferrerNotEnrolled>()("ReferrerNotEnrolled", {
  message: Schema.String,
  referredBy: Schema.String
}, { httpApiStatus: 422 }) {}

/** 409: `referredBy` is set at enrollment and cannot change. */
export class ReferrerConflict extends Schema.TaggedError<ReferrerConflict>()("ReferrerConflict", {
  message: Schema.String,
  userId: Schema.String
}, { httpApiStatus: 409 }) {}

/** Whether two users' attributes are the same. */
export const sameAttributes = (left: Attributes, right: Attributes): boolean =>
  left.tier === right.tier && left.country === right.country && left.segment === right.segment
