/** What vitest's JSON reporter writes. */
export interface Results {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: ReadonlyArray<{ readonly status: string; readonly assertionResults: ReadonlyArray<Test> }>
}

interface Test {
  readonly status: string
  readonly fullName: string
}

/**
 * A line for each test that was skipped, and the last line of all, for machines: `N passed, N failed, N skipped`. Where
 * vitest exited with another code than 0, at least one failed: an error outside of tests is in none of the results.
 */
export const closingLines = (results: Results, code: number): string => {
  // A file that fails before or between its tests counts as one failure: none of its tests reports it.
  const brokenFiles = results.testResults.filter(({ status, assertionResults }) =>
    status === "failed" && assertionResults.every((test) => test.status !== "failed")
  )
  const undone = results.testResults.flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status !== "passed" && status !== "failed")
  const failed = Math.max(results.numFailedTests + brokenFiles.length, code === 0 ? 0 : 1)
  const skipped = results.numPendingTests + results.numTodoTests
  const closing = `${results.numPassedTests} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`
  return [...undone.map(({ fullName }) => `skipped: ${fullName}`), closing].map((line) => `${line}\n`).join("")
}
