import { Effect } from "effect"
import * as Attack from "../Attack.ts"
import * as Sockets from "../Sockets.ts"

interface Size {
  readonly perSecond: number
  readonly millis: number
}

const connections = 20

/** Nearly as many objects as a body may have, every one wrong in four ways. */
const emptyObjects = Array.from({ length: 32_000 }, () => ({}))
const emptyCampaigns = JSON.stringify({ campaigns: emptyObjects })

/** As many in one event. */
const emptyValues = JSON.stringify({ events: [{ emptyObjects }] })

/** Nearly 1 MiB of them. */
const tooManyValues = JSON.stringify({ events: [{ values: Array.from({ length: 340_000 }, () => ({})) }] })

/** Nearly 1 MiB in one event, none of whose keys is known. */
const keys = `{"events":[{${Array.from({ length: 80_000 }, (_, index) => `"a${index}":1`).join()}}]}`

/** A body in more chunks than it may have, of a byte each. */
const chunks = "1\r\n \r\n".repeat(10_000)

/** Requests whose refusal takes the service more time, or memory, than others take to answer; some need no key. */
export const costlyRequests = Attack.make({
  name: "costly-requests",
  what: ({ perSecond }: Size) => `${Attack.grouped(perSecond)} requests/s that are costly to refuse`,
  short: { perSecond: 20, millis: 1_000 },
  full: { perSecond: 40, millis: 30_000 },
  maxSeconds: 60,
  prepare: ({ apiKey, service }, { millis, perSecond }) => {
    const key = { "x-api-key": apiKey }
    const chunked = { ...key, "content-type": "application/json", "transfer-encoding": "chunked" }
    const requests = [
      Sockets.request("PUT", "/v1/programs/costly/versions/1", key, emptyCampaigns),
      Sockets.request("POST", "/v1/spend-events/batch", key, emptyValues),
      Sockets.request("POST", "/v1/spend-events/batch", key, tooManyValues),
      Sockets.request("POST", "/v1/spend-events/batch", key, keys),
      `${Sockets.request("POST", "/v1/spend-events", chunked)}${chunks}0\r\n\r\n`,
      Sockets.request("POST", "/v1/spend-events", key, "{}").replace(
        "application/json",
        `application/json${" ".repeat(15_000)}x`
      ),
      Sockets.request("GET", `/${"%/".repeat(7_000)}%`),
      Sockets.request("GET", `/health?${"%&".repeat(7_000)}`)
    ]
    return Effect.succeed(Effect.scoped(Effect.gen(function*() {
      const sockets = yield* Sockets.make(service)
      const flood = Sockets.flood(sockets, { connections, perSecond, millis }, (index) =>
        requests[index % requests.length] ?? "")
      return Attack.outcome(...(yield* Sockets.figures(sockets, flood)))
    })))
  }
})
