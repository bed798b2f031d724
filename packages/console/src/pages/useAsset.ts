import type { Asset } from "@card-rewards/domain/Money"
import { useState } from "react"
import { useHistoryState } from "../history/HistoryContext.ts"

export const assetOptions = [
  ["USDC", "USDC"],
  ["EURe", "EURe"]
] as const

/** The selected asset; by default the first one with a history. */
export const useAsset = (): readonly [Asset, (asset: Asset) => void] => {
  const { fold } = useHistoryState()
  const [chosen, setChosen] = useState<Asset>()
  const first = fold.vault.USDC.length === 0 && fold.vault.EURe.length > 0 ? "EURe" : "USDC"
  return [chosen ?? first, setChosen]
}

export const windowOptions = [
  ["7", "7 d"],
  ["30", "30 d"],
  ["90", "90 d"],
  ["all", "All"]
] as const
export type Window = (typeof windowOptions)[number][0]

/** The start of a window, which is not before the first event. */
export const windowStart = (window: Window, earliest: number | undefined, now: number): number => {
  const day = 86_400_000
  const first = Math.min(earliest ?? now - 7 * day, now - day)
  return window === "all" ? first : now - Number(window) * day
}
