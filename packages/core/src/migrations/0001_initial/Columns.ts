/** A column of an amount in an asset's smallest units. */
export const amount = (name: string, check = `${name} >= 0`) => `${name} numeric(78,0) NOT NULL CHECK (${check})`

/** The column of an asset. */
export const asset = "asset text NOT NULL CHECK (asset IN ('USDC', 'EURe'))"

/** The columns of all movements of a vault since its beginning. Sums may have more digits than an amount. */
export const movements = ["deposits", "withdrawals", "claims", "earned", "refunded", "recovered", "matured"]
  .map((name) => `${name} numeric NOT NULL DEFAULT 0 CHECK (${name} >= 0)`).join(",\n    ")
