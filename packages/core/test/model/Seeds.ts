/** `TEST_SEEDS`: how many, or single ones as `7,8`. */
export const parseSeeds = (text: string): ReadonlyArray<number> =>
  text.includes(",") ? text.split(",").map(Number) : Array.from({ length: Number(text) }, (_, index) => index + 1)
