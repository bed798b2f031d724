import { Schema, SchemaTransformation } from "effect"
import { currencies } from "./generated/Iso4217.ts"

/** The assets in which rewards are paid. USDC has 6 decimals, EURe 18 (decisions, section 1). */
export const Asset = Schema.Literals(["USDC", "EURe"])
export type Asset = typeof Asset.Type

/** Both assets in the order in which balances list them. */
export const assets: ReadonlyArray<Asset> = Asset.literals

/** The decimals of an asset: its unit has 10^decimals smallest units. */
export const decimalsOf: Record<Asset, number> = { USDC: 6, EURe: 18 }

/** Smallest units of an asset in one cent: USDC 10^4, EURe 10^16. */
export const unitsPerCent: Record<Asset, bigint> = { USDC: 10n ** 4n, EURe: 10n ** 16n }

/** Formats a non-negative integer of 10^-decimals with all of its decimals, as in `12.345678`. */
export const printFixed = (value: bigint, decimals: number): string => {
  const digits = value.toString().padStart(decimals + 1, "0")
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Formats an amount with its unit, such as `12.345678 USDC`. */
export const printUnits = (amount: bigint, asset: Asset): string =>
  `${printFixed(amount, decimalsOf[asset])} ${asset}`

/** The asset that spend in a currency earns. Spend in other currencies earns nothing. */
export const assetOfCurrency = (currency: string): Asset | undefined =>
  currency === "USD" ? "USDC" : currency === "EUR" ? "EURe" : undefined

/** The spend currency that earns an asset: the inverse of {@link assetOfCurrency}. */
export const currencyOfAsset: Record<Asset, string> = { USDC: "USD", EURe: "EUR" }

/** Longest amount of an asset's smallest units, in digits; also the precision of the database's columns. */
const amountMaxDigits = 78

/** The greatest amount that has {@link amountMaxDigits} digits. */
export const maxAmount = 10n ** BigInt(amountMaxDigits) - 1n

/** A non-negative integer, on the wire as at most `maximum` digits. */
export const digits = (maximum: number) =>
  Schema.String.check(
    Schema.isPattern(new RegExp(`^[0-9]{1,${maximum}}$`), {
      expected: `1 to ${maximum} decimal digits`,
      toJsonSchema: () => ({ pattern: `^[0-9]{1,${maximum}}$` })
    })
  ).pipe(Schema.decodeTo(
    Schema.BigInt.check(Schema.isBetweenBigInt({ minimum: 0n, maximum: 10n ** BigInt(maximum) - 1n })),
    SchemaTransformation.transform({ decode: (value) => BigInt(value), encode: (value) => value.toString() })
  ))

/** A non-negative integer of an asset's smallest units, on the wire as 1 to 78 digits. */
export const Amount = digits(amountMaxDigits)

/** A non-negative integer of a currency's minor units, on the wire as 1 to 18 digits. */
export const Cents = digits(18)

/** An active ISO 4217 code. */
export const Currency = Schema.String.check(
  Schema.makeFilter<string>((value) => currencies.has(value), {
    expected: "an active ISO 4217 currency code",
    toJsonSchema: () => ({ pattern: "^[A-Z]{3}$" }),
    arbitraryConstraint: { patterns: [{ source: `^(?:${[...currencies].join("|")})$`, flags: "" }] }
  })
).pipe(Schema.brand("Currency"))
export type Currency = typeof Currency.Type

/** What was a {@link Currency} when it was stored; see `StoredCountry`. */
const StoredCurrency: typeof Currency = Schema.String.check(
  Schema.isPattern(/^[A-Z]{3}$/, { toJsonSchema: () => ({ pattern: "^[A-Z]{3}$" }) })
).pipe(Schema.brand("Currency"))

/** An amount of an asset. */
export const AssetAmount = Schema.Struct({ asset: Asset, amount: Amount }).annotate({
  identifier: "AssetAmount",
  expected: "an object",
  description: "An amount of an asset, in its smallest units: USDC has 6 decimals, EURe 18."
})
export type AssetAmount = typeof AssetAmount.Type

/** An amount of a spend currency, in minor units. */
const amountIn = (currency: typeof Currency) =>
  Schema.Struct({ currency, amount: Cents }).annotate({
    identifier: "SpendAmount",
    expected: "an object",
    description: "An amount of a spend currency, in minor units (cents)."
  })
export const SpendAmount = amountIn(Currency)
export type SpendAmount = typeof SpendAmount.Type

/** A {@link SpendAmount} of a response. */
export const StoredAmount: typeof SpendAmount = amountIn(StoredCurrency)
