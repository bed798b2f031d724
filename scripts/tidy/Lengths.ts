import ts from "typescript-5"
import { forEachNode, isTest, lineOf } from "./Repository.ts"
import { perSource } from "./Rule.ts"

const longestFileLines = 300
const longestFunctionLines = 70
const longestLineColumns = 120

export const fileLength = perSource("file-length", ({ text }) => {
  const lines = text.split("\n").length - 1
  return lines > longestFileLines ? [`${lines} lines, more than ${longestFileLines}: give it a folder beside it`] : []
})

export const lineLength = perSource("line-length", ({ text }) =>
  text.split("\n").flatMap((line, index) => {
    const columns = [...line].length
    if (columns <= longestLineColumns) return []
    return [`line ${index + 1} has ${columns} columns, more than ${longestLineColumns}`]
  }))

/**
 * Of functions within each other the outermost is reported; comments before it do not count. In tests, callbacks that
 * only group tests do not count either.
 */
export const functionLength = perSource("function-length", ({ file, tree }) => {
  const groups = isTest(file) ? groupingCallbacks(tree) : new Set<ts.Node>()
  const breaches: Array<string> = []
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && !groups.has(node)) {
      const first = lineOf(tree, node.getStart(tree))
      const lines = lineOf(tree, node.end) - first + 1
      if (lines > longestFunctionLines) {
        return void breaches.push(`the function at line ${first} has ${lines} lines, more than ${longestFunctionLines}`)
      }
    }
    ts.forEachChild(node, visit)
  }
  visit(tree)
  return breaches
})

/** Callbacks of `describe("…", …)`, `layer(…)("…", …)` and `it.layer(…)("…", …)`. */
const groupingCallbacks = (tree: ts.SourceFile): ReadonlySet<ts.Node> => {
  const found = new Set<ts.Node>()
  forEachNode(tree, (node) => {
    if (!ts.isCallExpression(node)) return
    const isGroup = ts.isCallExpression(node.expression) || /^describe\b/.test(node.expression.getText(tree))
    if (isGroup) for (const argument of node.arguments) found.add(argument)
  })
  return found
}
