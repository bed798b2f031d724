import { createContext, use } from "react"
import type { Zone } from "../format/Time.ts"

/** The time zone in which instants are shown: UTC, as in the API, or the reader's local time. */
export const ZoneContext = createContext<Zone>("UTC")

export const useZone = (): Zone => use(ZoneContext)

/** The name of the chosen time zone, for column heads. */
export const ZoneName = () => (useZone() === "UTC" ? "UTC" : "local time")
