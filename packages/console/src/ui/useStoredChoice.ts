import { useEffect, useState } from "react"

/** A choice among options, the first by default; the choice is stored for the next visit. */
export const useStoredChoice = <A extends string>(name: string, options: readonly [A, ...ReadonlyArray<A>]) => {
  const key = `card-rewards.${name}`
  const [chosen, choose] = useState<A>(() => {
    const stored = localStorage.getItem(key)
    return options.find((option) => option === stored) ?? options[0]
  })
  useEffect(() => localStorage.setItem(key, chosen), [key, chosen])
  return [chosen, choose] as const
}
