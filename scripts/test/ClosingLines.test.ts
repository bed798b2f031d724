import { assert, it } from "@effect/vitest"
import { closingLines } from "../check/ClosingLines.ts"

const results = (...statuses: ReadonlyArray<string>) => ({
  numPassedTests: statuses.filter((status) => status === "passed").length,
  numFailedTests: statuses.filter((status) => status === "failed").length,
  numPendingTests: statuses.filter((status) => status === "skipped").length,
  numTodoTests: 0,
  testResults: [{
    status: statuses.includes("failed") ? "failed" : "passed",
    assertionResults: statuses.map((status, index) => ({ status, fullName: `test ${index}` }))
  }]
})

it("the last line of a run counts its tests, and names the skipped ones before", () => {
  assert.strictEqual(closingLines(results("passed", "failed"), 1), "1 passed, 1 failed\n")
  assert.strictEqual(closingLines(results("passed", "skipped"), 0), "skipped: test 1\n1 passed, 0 failed, 1 skipped\n")
})

it("a run that fails by an error outside of its tests has a failure in its last line", () => {
  assert.strictEqual(closingLines(results("passed"), 1), "1 passed, 1 failed\n")
})

it("a file that fails without a failed test is a failure", () => {
  const broken = { ...results("passed"), testResults: [{ status: "failed", assertionResults: [] }] }
  assert.strictEqual(closingLines(broken, 1), "1 passed, 1 failed\n")
})
