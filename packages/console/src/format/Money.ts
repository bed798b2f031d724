import { minorUnits } from "@card-rewards/domain/generated/Iso4217"
import { type Asset, decimalsOf as assetDecimals } from "@card-rewards/domain/Money"

/** The number of decimals of an asset or of a card's currency. */
export const decimalsOf = (unit: string): number =>
  unit === "USDC" || unit === "EURe" ? assetDecimals[unit] : (minorUnits.get(unit) ?? 2)

/** An exact amount in parts: `12,345.67`, and the digits after the cents without trailing zeros. */
export interface MoneyParts {
  readonly main: string
  readonly rest: string
}

/** Splits an amount of smallest units at its cents. Nothing is rounded. */
export const moneyParts = (amount: bigint, unit: string): MoneyParts => {
  const decimals = decimalsOf(unit)
  const digits = (amount < 0n ? -amount : amount).toString().padStart(decimals + 1, "0")
  const whole = digits.slice(0, digits.length - decimals).replaceAll(/\B(?=(\d{3})+$)/g, ",")
  const fraction = digits.slice(digits.length - decimals)
  const shown = Math.min(2, decimals)
  return {
    main: `${amount < 0n ? "−" : ""}${whole}${shown > 0 ? `.${fraction.slice(0, shown)}` : ""}`,
    rest: fraction.slice(shown).replace(/0+$/, "")
  }
}

/** `12,345.678 USDC`, exact. */
export const printMoney = (amount: bigint, unit: string): string => {
  const { main, rest } = moneyParts(amount, unit)
  return `${main}${rest} ${unit}`
}

/** Reads `1,234.5` as smallest units; undefined for a text that is no amount or has too many decimals. */
export const parseMoney = (text: string, unit: string): bigint | undefined => parseDecimal(text, decimalsOf(unit))

/** Reads a decimal number as an integer of 10^-decimals. Commas may divide thousands, as in `1,234.5`, and no more. */
export const parseDecimal = (text: string, decimals: number): bigint | undefined => {
  const [, whole = "", fraction = ""] = /^(\d+|\d{1,3}(?:,\d{3})+)(?:\.(\d+))?$/.exec(text.trim()) ?? []
  if (whole === "" || fraction.length > decimals) return undefined
  return BigInt(`${whole.replaceAll(",", "")}${fraction.padEnd(decimals, "0")}`)
}

/** The inverse of {@link parseDecimal}, without trailing zeros. */
export const printDecimal = (value: bigint, decimals: number): string => {
  const digits = value.toString().padStart(decimals + 1, "0")
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "")
  return `${digits.slice(0, digits.length - decimals)}${fraction === "" ? "" : `.${fraction}`}`
}

/** Whole units as a floating-point number, for charts only. */
export const toNumber = (amount: bigint, unit: Asset): number => Number(amount) / 10 ** decimalsOf(unit)

/** For an axis: `1.2K`, or `1e+24` beyond the names of numbers. */
export const printCompact = (value: number): string =>
  Math.abs(value) >= 1e15
    ? Number(value.toPrecision(3)).toExponential()
    : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value)

/** Basis points as a percentage, exact: 125 is `1.25 %`. */
export const printRate = (basisPoints: number): string => `${printDecimal(BigInt(basisPoints), 2)} %`

/** Basis points as a factor, exact: 15000 is `1.5×`. */
export const printFactor = (basisPoints: number): string => `${printDecimal(BigInt(basisPoints), 4)}×`
