import { createContext, use, useSyncExternalStore } from "react"
import { History, type HistoryState } from "./Follow.ts"

export const HistoryContext = createContext(new History())

export const useHistory = (): History => use(HistoryContext)

/** Re-renders when events arrive. */
export const useHistoryState = (): HistoryState => {
  const history = useHistory()
  return useSyncExternalStore(history.subscribe, history.state)
}
