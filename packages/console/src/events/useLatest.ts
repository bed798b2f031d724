import { useRead } from "../session/Query.ts"
import { type Latest, readLatest } from "./Latest.ts"

/** The newest events, followed for as long as a page shows them. */
export const useLatest = () =>
  useRead(["latest"], (api, known?: Latest) => readLatest((query) => api.events.list({ query }), known), {
    everyMillis: 4_000
  })
