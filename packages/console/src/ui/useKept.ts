import { useEffect, useState } from "react"

/** One of few, the first unless another was chosen; what was chosen is kept for the next visit. */
export const useKept = <A extends string>(name: string, options: readonly [A, ...ReadonlyArray<A>]) => {
  const key = `card-rewards.${name}`
  const [chosen, choose] = useState<A>(() => {
    const kept = localStorage.getItem(key)
    return options.find((option) => option === kept) ?? options[0]
  })
  useEffect(() => localStorage.setItem(key, chosen), [key, chosen])
  return [chosen, choose] as const
}
