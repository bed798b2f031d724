import { dayMillis } from "@card-rewards/domain/Time"
import type { Operation } from "./Operation.ts"
import { program } from "./Sizes.ts"

/** A short story in which money that was paid or reserved comes back, and its expected result. */
export interface Recovery {
  readonly guarantee: string
  /** The operations, with this number of rewards of another user before the first one whose money is assigned. */
  readonly story: (fillers: number) => ReadonlyArray<Operation>
}

const holdingDays = 14

const clearing = (user: string, transaction: string, cents: bigint, dueInDays: number): Operation => ({
  op: "spend",
  kind: "clearing",
  user,
  transaction,
  cents,
  currency: "USD",
  mcc: "5411",
  agoMillis: (holdingDays - dueInDays) * dayMillis,
  later: true
})

const move = (op: "deposit" | "claim", reference: string, amount: bigint): Operation =>
  ({ op, asset: "USDC", user: "u1", reference, amount: amount * unitsPerCent })

/** The reward of a purchase of one cent. */
const unitsPerCent = 100n

const refund = (user: string, original: string, cents: bigint): Operation => ({
  op: "spend",
  kind: "refund",
  user,
  transaction: `back ${original}`,
  cents,
  currency: "USD",
  mcc: "5411",
  agoMillis: 0,
  original,
  later: true
})

const enrolled: ReadonlyArray<Operation> = [
  { op: "put", user: "u1", attributes: {} },
  { op: "put", user: "u2", attributes: {} },
  program("p", holdingDays),
  { op: "clock", to: 2 * holdingDays * dayMillis }
]

/** The user u1 owes `cents`; nothing else is in the vault. */
const owing = (cents: bigint): ReadonlyArray<Operation> => [
  ...enrolled,
  clearing("u1", "paid", cents, 0),
  move("deposit", "d0", cents),
  move("claim", "c0", cents),
  refund("u1", "paid", cents)
]

/** Waiting rewards of one cent each, created before all others. */
const waitingFirst = (count: number): ReadonlyArray<Operation> => [
  ...Array.from({ length: count }, (_, index) => clearing("u2", `f${index}`, 1n, holdingDays)),
  // the worker runs, so that later clearings are processed after these in every lane
  { op: "worker" }
]

/**
 * The user u1 owes 100 cents. The vault's other money is reserved for F of u2. u1 has a claim that pays few rewards at
 * once, and behind the fillers a waiting reward of 160 cents that was due before those that the claim counts.
 */
const claiming = (fillers: number): ReadonlyArray<Operation> => [
  ...enrolled,
  ...["paid", "K1", "K2", "K3"].map((transaction) => clearing("u1", transaction, 100n, 0)),
  clearing("u2", "F", 160n, holdingDays),
  move("deposit", "d0", 560n),
  move("claim", "c0", 100n),
  ...waitingFirst(fillers),
  clearing("u1", "W", 160n, -1),
  refund("u1", "paid", 100n),
  move("claim", "c1", 300n)
]

export const recoveries: ReadonlyArray<Recovery> = [
  {
    guarantee: "what is owed is recovered from the reward that is due first, also where a later one was assigned",
    story: (fillers) => [
      ...owing(100n),
      clearing("u1", "R5", 60n, 5),
      move("deposit", "d1", 60n),
      ...waitingFirst(fillers),
      clearing("u1", "R10", 100n, 10),
      move("deposit", "d2", BigInt(fillers) + 100n),
      { op: "clock", to: 11 * dayMillis },
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "what is owed is recovered from the assigned reward that is due first, not from the one earned first",
    story: (fillers) => [
      ...owing(100n),
      ...waitingFirst(fillers),
      clearing("u1", "R10", 100n, 10),
      clearing("u1", "R5", 60n, 5),
      move("deposit", "d1", BigInt(fillers) + 160n),
      { op: "clock", to: 11 * dayMillis },
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "recovered money serves a waiting reward, and each of two assigned rewards is reserved once",
    story: (fillers) => [
      ...owing(1_000n),
      ...waitingFirst(fillers),
      clearing("u1", "A", 100n, 5),
      clearing("u1", "B", 100n, 5),
      clearing("u2", "W", 50n, holdingDays),
      move("deposit", "d1", BigInt(fillers) + 200n),
      { op: "clock", to: 11 * dayMillis },
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "money that refunds free funds the rewards that the same batch of events created before them",
    // with more than a block of waiting rewards before these
    story: (fillers) => [
      ...enrolled,
      clearing("u1", "F", BigInt(fillers) + 716n, holdingDays),
      clearing("u1", "G", 110n, holdingDays),
      move("deposit", "d0", BigInt(fillers) + 826n),
      ...waitingFirst(fillers + 256),
      clearing("u1", "A", 100n, holdingDays),
      clearing("u1", "B", 60n, holdingDays),
      refund("u1", "F", BigInt(fillers) + 716n),
      clearing("u1", "C", 400n, holdingDays),
      clearing("u1", "D", 350n, holdingDays),
      refund("u1", "G", 110n),
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "due rewards of one who owes are funded in order, also those that the recoveries of others fund",
    story: (fillers) => [
      ...owing(2n * BigInt(fillers) + 10n),
      ...Array.from({ length: 3 * fillers + 20 }, (_, index) => clearing("u1", `w${index}`, 1n, -1)),
      { op: "worker" },
      move("deposit", "d1", BigInt(fillers) + 10n),
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "a balance shows as pending what the recovery of the same read has funded",
    story: (fillers) => [
      ...owing(1_000n),
      clearing("u1", "R5", 500n, 5),
      move("deposit", "d1", 500n),
      ...waitingFirst(fillers),
      clearing("u1", "W", 100n, holdingDays),
      { op: "clock", to: 6 * dayMillis },
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "what is funded and due before its user owes is not recovered from, also within one batch of events",
    story: (fillers) => [
      ...enrolled,
      clearing("u1", "paid", 100n, 0),
      clearing("u1", "F", 60n, holdingDays),
      move("deposit", "d1", 160n),
      move("claim", "c1", 100n),
      ...waitingFirst(fillers),
      clearing("u2", "assigned", 1n, holdingDays),
      move("deposit", "d2", BigInt(fillers) + 1n),
      clearing("u1", "W", 60n, 0),
      // the refunds are a batch of their own
      { op: "clock", to: 1 },
      refund("u1", "F", 60n),
      refund("u1", "paid", 100n),
      { op: "read", user: "u1" },
      { op: "check" }
    ]
  },
  {
    guarantee: "a claim after one that is not finished pays no reward of that again",
    story: () => [
      ...enrolled,
      ...["A", "B", "C", "D", "E"].map((transaction) => clearing("u1", transaction, 10n, 0)),
      move("deposit", "d1", 50n),
      move("claim", "c1", 40n),
      move("claim", "c2", 5n),
      { op: "check" }
    ]
  },
  {
    guarantee: "a claim counts rewards by what they have left after parts were recovered and paid, also those due now",
    story: () => [
      ...enrolled,
      clearing("u1", "paid", 50n, 0),
      clearing("u1", "paid too", 40n, 0),
      clearing("u1", "K2", 100n, 0),
      clearing("u1", "K1", 100n, 1),
      clearing("u1", "M", 100n, 3),
      clearing("u1", "N", 100n, 4),
      move("deposit", "d0", 1_000n),
      move("claim", "c0", 90n),
      refund("u1", "paid", 50n),
      { op: "clock", to: 2 * dayMillis },
      { op: "read", user: "u1" },
      move("claim", "c1", 30n),
      clearing("u1", "oldest", 10n, -5),
      refund("u1", "paid too", 40n),
      { op: "clock", to: 3 * dayMillis },
      // in the order of payment: oldest has 10 cents left, K2 70, K1 50, and M, due only now as N is, 60
      move("claim", "c2", 191n),
      { op: "check" }
    ]
  },
  {
    guarantee: "an unfinished claim of a user who owes is paid once, where a due reward ends in the same step",
    story: () => [
      ...enrolled,
      ...["paid", "K1", "K2"].map((transaction) => clearing("u1", transaction, 100n, 0)),
      clearing("u1", "D", 300n, 1),
      move("deposit", "d0", 600n),
      move("claim", "c0", 100n),
      refund("u1", "paid", 100n),
      move("claim", "c1", 200n),
      { op: "clock", to: 2 * dayMillis },
      { op: "worker" },
      { op: "check" }
    ]
  },
  {
    guarantee: "an unfinished claim of a user who owes pays the rewards that it counted, not one funded after it",
    story: (fillers) => [
      ...claiming(fillers),
      move("deposit", "d2", BigInt(fillers) + 160n),
      { op: "check" }
    ]
  },
  {
    guarantee: "what a claiming user owes is recovered before the next event earns, also within one batch of events",
    story: (fillers) => [
      ...claiming(fillers),
      move("deposit", "d2", BigInt(fillers)),
      clearing("u2", "X", 120n, holdingDays),
      // the next two events are a batch of their own
      { op: "clock", to: 1 },
      refund("u2", "F", 160n),
      clearing("u2", "Y", 50n, holdingDays),
      { op: "check" }
    ]
  }
]
