import ts from "typescript-5"
import { isTestSupport } from "./Packages.ts"
import { forEachNode, isInSrc, isMain, lineOf } from "./Repository.ts"
import { perSource } from "./Rule.ts"

export const environment = perSource("environment", ({ file, tree }) => {
  if (!isInSrc(file) || isMain(file) || isTestSupport(file)) return []
  const breaches: Array<string> = []
  forEachNode(tree, (node) => {
    if (ts.isPropertyAccessExpression(node) && node.getText(tree) === "process.env") {
      breaches.push(`reads process.env at line ${lineOf(tree, node.getStart(tree))}; only a main.ts does`)
    }
  })
  return breaches
})
