/** A column of an amount in an asset's smallest units. */
export const amount = (name: string, check = `${name} >= 0`) => `${name} numeric(78,0) NOT NULL CHECK (${check})`

/** The column of an asset. */
export const asset = "asset text NOT NULL CHECK (asset IN ('USDC', 'EURe'))"
