import type { Asset } from "@card-rewards/domain/Money"

/** Decimals of what amounts are counted in: assets as the service pays them, currencies as cards spend them. */
export const decimalsOf = (unit: string): number =>
  unit === "USDC" ? 6 : unit === "EURe" ? 18 : currencyDecimals(unit)

/** ISO 4217's exceptions: yen have no minor unit, dinars a thousand. */
const currencyDecimals = (currency: string): number =>
  new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits ?? 2

/** An exact amount in parts: `12,345.67` and what follows the cents, without zeros at the end. */
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

/** Reads `1,234.5` as smallest units; undefined where it is no amount, or finer than the unit. */
export const parseMoney = (text: string, unit: string): bigint | undefined => parseDecimal(text, decimalsOf(unit))

/** Reads a decimal number as an integer of 10^-decimals. */
export const parseDecimal = (text: string, decimals: number): bigint | undefined => {
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text.trim().replaceAll(",", ""))
  const fraction = match?.[2] ?? ""
  if (match === null || fraction.length > decimals) return undefined
  return BigInt(`${match[1]}${fraction.padEnd(decimals, "0")}`)
}

/** The opposite of {@link parseDecimal}, without zeros at the end. */
export const printDecimal = (value: bigint, decimals: number): string => {
  const digits = value.toString().padStart(decimals + 1, "0")
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, "")
  return `${digits.slice(0, digits.length - decimals)}${fraction === "" ? "" : `.${fraction}`}`
}

/** For drawing alone: as many whole units as a number can tell. */
export const toNumber = (amount: bigint, unit: Asset): number => Number(amount) / 10 ** decimalsOf(unit)

/** For an axis: `1.2k`. */
export const printCompact = (value: number): string =>
  new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value)

/** Basis points as a percentage, exact: 125 is `1.25 %`. */
export const printRate = (basisPoints: number): string => `${printDecimal(BigInt(basisPoints), 2)} %`

/** Basis points as a factor, exact: 15000 is `1.5×`. */
export const printFactor = (basisPoints: number): string => `${printDecimal(BigInt(basisPoints), 4)}×`
