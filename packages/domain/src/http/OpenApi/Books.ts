import type { OperationExamples } from "./OperationExamples.ts"
import { at } from "./Values.ts"

const opening = { held: "1000000000", free: "1000000000", reserved: "0", waiting: "0" }
const closing = { held: "1000000000", free: "990124000", reserved: "9876000", waiting: "0" }
const movements = {
  deposits: "0",
  withdrawals: "0",
  claims: "0",
  earned: "9876000",
  refunded: "0",
  recovered: "0",
  matured: "0"
}
const date = "2030-01-01"
const entry = {
  entry: "2",
  at,
  asset: "USDC",
  from: "free",
  to: "pending",
  amount: "9876000",
  userId: "user-1",
  rewardId: "rw:acme:user-1:clearing:txn-1:groceries-2026"
}

const seal = {
  seal: "1",
  fromEntry: "1",
  toEntry: "2",
  at,
  previousHash: "0".repeat(64),
  hash: "697b41238b37472b86b22e3090866bd3e0bc2b0e9270fd837367f6eb33d155ea"
}

/** Examples of the operations on the vault, and of those that show the integrator's books. */
export const books: Readonly<Record<string, OperationExamples>> = {
  "vault.get": {
    success: {
      vault: {
        vault: {
          vaultId: "sandbox",
          balances: [
            { asset: "USDC", held: "1000000000", free: "990124000", reserved: "9876000", waiting: "0" },
            { asset: "EURe", held: "0", free: "0", reserved: "0", waiting: "7000000000000000000" }
          ],
          lowFunds: [{ asset: "USDC", threshold: "500000000" }]
        }
      }
    }
  },
  "vault.setLowFunds": {
    request: { threshold: { threshold: "500000000" } },
    success: { set: { asset: "USDC", threshold: "500000000" } }
  },
  "vault.removeLowFunds": {
    success: { removed: { asset: "USDC", threshold: "500000000" }, none: { asset: "USDC" } }
  },
  "sandbox.vault": {
    success: {
      vault: {
        vaultId: "sandbox",
        balances: [{ asset: "USDC", held: "1000000000", free: "990124000" }, { asset: "EURe", held: "0", free: "0" }]
      }
    }
  },
  "statements.get": {
    success: {
      day: {
        statement: {
          asset: "USDC",
          from: date,
          to: date,
          opening,
          closing,
          days: [{ date, opening, ...movements, closing }]
        }
      }
    },
    texts: {
      "text/csv":
        "date,opening held,opening free,opening reserved,opening waiting,deposits,withdrawals,claims,earned,refunded," +
        "recovered,matured,closing held,closing free,closing reserved,closing waiting\r\n" +
        "2030-01-01,1000.000000 USDC,1000.000000 USDC,0.000000 USDC,0.000000 USDC,0.000000 USDC,0.000000 USDC," +
        "0.000000 USDC,9.876000 USDC,0.000000 USDC,0.000000 USDC,0.000000 USDC,1000.000000 USDC,990.124000 USDC," +
        "9.876000 USDC,0.000000 USDC\r\n"
    }
  },
  "journal.list": {
    success: { entries: { entries: [entry], next: "2" } },
    texts: { "application/x-ndjson": `${JSON.stringify(entry)}\n` }
  },
  "journal.seals": { success: { seals: { seals: [seal], next: "1" } } },
  "journal.latestSeal": { success: { seal: { seal } } }
}
