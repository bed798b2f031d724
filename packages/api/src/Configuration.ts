import * as Settings from "@card-rewards/core/Settings"
import { Effect } from "effect"
import type { Limit } from "./Pipeline/RateLimit.ts"

/** The api's environment as the operations page describes it. */
export const load = Effect.gen(function*() {
  return {
    ...(yield* Settings.shared),
    host: yield* Settings.setting("HOST", "an address to listen on", "127.0.0.1", (text) => text),
    port: yield* Settings.setting("PORT", "a port from 0 to 65535", 3_000, Settings.integer(0, 65_535)),
    limits: {
      ingest: yield* limit("RATE_LIMIT_INGEST", { perSecond: 1_000, burst: 2_000 }),
      read: yield* limit("RATE_LIMIT_READ", { perSecond: 200, burst: 400 }),
      manage: yield* limit("RATE_LIMIT_MANAGE", { perSecond: 50, burst: 500 }),
      auth: yield* limit("RATE_LIMIT_AUTH", { perSecond: 20, burst: 20 })
    }
  }
})

const limit = (name: string, fallback: Limit) =>
  Settings.setting(name, "per-second:burst such as 200:400, each from 1 to 9999999, or off", fallback, parseLimit)

const parseLimit = (text: string): Limit | undefined => {
  if (text === "off") return "off"
  const match = /^([1-9][0-9]{0,6}):([1-9][0-9]{0,6})$/.exec(text)
  return match === null ? undefined : { perSecond: Number(match[1]), burst: Number(match[2]) }
}
