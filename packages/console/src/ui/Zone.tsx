import { createContext, use } from "react"
import type { Zone } from "../format/Time.ts"

/** Where instants are told: in UTC, as the API does, or as the reader's clock shows them. */
export const ZoneContext = createContext<Zone>("UTC")

export const useZone = (): Zone => use(ZoneContext)

/** For the heads of columns whose instants are told in the zone that was chosen. */
export const ZoneName = () => (useZone() === "UTC" ? "UTC" : "local time")
