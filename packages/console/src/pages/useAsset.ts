import type { Asset } from "@card-rewards/domain/Money"
import type { VaultStatus } from "@card-rewards/domain/Vault"
import { useState } from "react"
import { useRead } from "../session/Query.ts"

export const assetOptions = [
  ["USDC", "USDC"],
  ["EURe", "EURe"]
] as const

/** The vault as it is now. */
export const useVault = () => useRead(["vault"], (api) => api.vault.get(), { everyMillis: 5_000 })

/** The selected asset; by default the first one that the vault has. */
export const useAsset = (): readonly [Asset, (asset: Asset) => void] => {
  const { data } = useVault()
  const [chosen, setChosen] = useState<Asset>()
  const has = (asset: Asset) => {
    const { held, waiting } = moneyOf(data?.vault, asset)
    return held > 0n || waiting > 0n
  }
  return [chosen ?? (has("EURe") && !has("USDC") ? "EURe" : "USDC"), setChosen]
}

/** The vault's money in an asset. */
export type VaultMoney = VaultStatus["balances"][number]

export const moneyOf = (vault: VaultStatus | undefined, asset: Asset): VaultMoney =>
  vault?.balances.find((balance) => balance.asset === asset) ?? { asset, held: 0n, free: 0n, reserved: 0n, waiting: 0n }
