const ofEntries = "each seal is the hash of its entries"
const chain = "seals of the journal follow each other"
const first = "seal 1, entries 1 to 4"
const second = "seal 2, entries 5 to 8"
const third = "seal 3, entries 9 to 12"

const j = "FROM journal WHERE integrator_id = $i"
const update = (table: string, set: string, where: string) =>
  `UPDATE ${table} SET ${set} WHERE integrator_id = $i AND ${where}`
/** Moves the entries after the fourth by a number. */
const renumber = (by: number) =>
  [
    `CREATE TABLE moved AS SELECT * ${j} AND entry > 4`,
    `DELETE ${j} AND entry > 4`,
    `UPDATE moved SET entry = entry + ${by}`,
    "INSERT INTO journal TABLE moved",
    "DROP TABLE moved",
    update("vaults", `entries = entries + ${by}`, "true")
  ].join("; ")

/** What a superuser changes of an integrator with 12 entries in three seals, and what the audit says of it. */
export const sealFaults: ReadonlyArray<readonly [fault: string, plant: string, findings: ReadonlyArray<string>]> = [
  ["an entry's amount changed", update("journal", "amount = amount + 1", "entry = 6"), [`${second}: ${ofEntries}`]],
  ["an entry's user changed", update("journal", "user_id = user_id || ' '", "entry = 6"), [`${second}: ${ofEntries}`]],
  ["an entry's reward changed", update("journal", "reward = NULL", "entry = 6"), [`${second}: ${ofEntries}`]],
  ["an entry's reference changed", update("journal", "reference = 'other'", "entry = 6"), [`${second}: ${ofEntries}`]],
  ["an entry's time changed", update("journal", "recorded_at = recorded_at + interval '1 ms'", "entry = 6"), [
    `${second}: ${ofEntries}`
  ]],
  ["a reward's transaction changed", update("rewards", "external_transaction_id = 'x'", "creation = 5"), [
    `${second}: ${ofEntries}`
  ]],
  ["an entry removed", `DELETE ${j} AND entry = 8`, [`${second}: ${ofEntries}`]],
  ["the last entry removed, and the vault's counter", `DELETE ${j} AND entry = 12; ${
    update("vaults", "entries = 11", "true")
  }`, [`${third}: ${ofEntries}`]],
  ["an entry removed, and the later ones renumbered", `DELETE ${j} AND entry = 4; ${renumber(-1)}`, [
    first,
    second,
    third
  ].map((seal) => `${seal}: ${ofEntries}`)],
  ["an entry inserted, and the later ones renumbered", `${renumber(1)}; INSERT INTO journal (integrator_id, entry,
      recorded_at, asset, from_account, to_account, amount) SELECT integrator_id, 5, recorded_at, 'USDC', 'world',
      'free', 1 ${j} AND entry = 1`, [`${second}: ${ofEntries}`, `${third}: ${ofEntries}`]],
  ["two entries in another order", `${update("journal", "entry = 6000", "entry = 6")}; ${
    update("journal", "entry = 6", "entry = 7")
  }; ${update("journal", "entry = 7", "entry = 6000")}`, [`${second}: ${ofEntries}`]],
  ["a seal's hash rewritten", update("journal_seals", "hash = sha256('')", "seal = 2"), [
    `${third}: ${chain}`,
    `${second}: ${ofEntries}`
  ]],
  ["the last seal's hash rewritten", update("journal_seals", "hash = sha256('')", "seal = 3"), [
    `${third}: ${ofEntries}`
  ]],
  ["a seal's previous hash rewritten", update("journal_seals", "previous_hash = sha256('')", "seal = 2"), [
    `${second}: ${chain}`,
    `${second}: ${ofEntries}`
  ]],
  ["a seal's bounds rewritten", update("journal_seals", "to_entry = 7", "seal = 2"), [
    `${third}: ${chain}`,
    `seal 2, entries 5 to 7: ${ofEntries}`
  ]],
  ["the bounds of two seals rewritten", `${update("journal_seals", "to_entry = 7", "seal = 2")}; ${
    update("journal_seals", "from_entry = 8", "seal = 3")
  }`, [`seal 2, entries 5 to 7: ${ofEntries}`, `seal 3, entries 8 to 12: ${ofEntries}`]],
  ["a seal removed", "DELETE FROM journal_seals WHERE integrator_id = $i AND seal = 2", [`${third}: ${chain}`]],
  ["the first seals removed", "DELETE FROM journal_seals WHERE integrator_id = $i AND seal < 3", [`${third}: ${chain}`]]
]
