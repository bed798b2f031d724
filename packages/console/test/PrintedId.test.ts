import { assert, describe, it } from "@effect/vitest"
import { printId } from "@card-rewards/domain/SpendEvent"
import { parsePrintedId } from "../src/pages/user/PrintedId.ts"

const found = (text: string, integratorId: string | undefined) =>
  parsePrintedId(text, integratorId).map(({ transactionId, userId }) => [userId, transactionId])

describe("a printed id", () => {
  it("leads to the user and the transaction", () => {
    for (const kind of ["authorization", "incremental_authorization", "clearing", "reversal", "refund"] as const) {
      const id = printId({ integratorId: "acme", userId: "anna", kind, externalTransactionId: "txn-1" })
      assert.deepStrictEqual(found(id, "acme"), [["anna", "txn-1"]])
    }
    assert.deepStrictEqual(found("rw:acme:anna:clearing:txn-1:everyday", "acme"), [["anna", "txn-1"]])
    assert.deepStrictEqual(found("rw:acme:a:b:clearing:t:1:everyday", "acme"), [["a:b", "t:1"]])
    assert.deepStrictEqual(found("se:other:anna:refund:r", undefined), [["anna", "r"]])
    assert.deepStrictEqual(found("se:my:bank:anna:refund:r", "my:bank"), [["anna", "r"]])
  })

  it("has all of its meanings where ids contain colons", () => {
    assert.deepStrictEqual(found("se:acme:a:clearing:b:clearing:c", "acme"), [
      ["a", "b:clearing:c"],
      ["a:clearing:b", "c"]
    ])
    assert.deepStrictEqual(found("rw:acme:a:refund:clearing:c:p", "acme"), [
      ["a", "clearing:c"],
      ["a:refund", "c"]
    ])
  })

  it("is recognised only where it is one of this integrator", () => {
    for (const text of [
      "anna",
      "se:anna",
      "se:other:anna:clearing:t",
      "se:acme:anna:claim:t",
      "se:acme::clearing:t",
      "se:acme:anna:clearing:",
      "rw:acme:anna:clearing:t",
      `se:acme:anna:clearing:${"t".repeat(129)}`
    ]) {
      assert.deepStrictEqual(found(text, "acme"), [], text)
    }
  })
})
