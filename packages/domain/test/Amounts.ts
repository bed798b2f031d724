import { Schema } from "effect"

export const between = (minimum: bigint, maximum: bigint) =>
  Schema.BigInt.check(Schema.isBetweenBigInt({ minimum, maximum }))
export const whole = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
/** Minor units of a purchase. */
export const spend = between(1n, 10n ** 6n)

export const sum = (amounts: ReadonlyArray<bigint>) => amounts.reduce((total, amount) => total + amount, 0n)
export const least = (a: bigint, b: bigint) => a < b ? a : b
