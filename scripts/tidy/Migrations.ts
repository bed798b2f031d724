import ts from "typescript-5"
import { forEachNode } from "./Repository.ts"
import type { Rule } from "./Rule.ts"

const migrationFile = /^packages\/core\/src\/migrations\/(\d{4}_\w+)[.]ts$/
const listFile = "packages/core/src/Database/Migrations.ts"

/** A migration that the list does not name would never run. */
export const migrationList: Rule = {
  name: "migration-list",
  check: ({ sources }) => {
    const list = sources.find(({ file }) => file === listFile)
    const present = sources.flatMap(({ file }) => migrationFile.exec(file)?.[1] ?? [])
    const listed: Array<string> = []
    if (list !== undefined) {
      forEachNode(list.tree, (node) => {
        if (ts.isPropertyAssignment(node) && ts.isStringLiteral(node.name)) listed.push(node.name.text)
      })
    }
    return listed.join() === present.join() ? [] : [{
      file: listFile,
      message: `lists the migrations ${listed.join(", ")}; the folder holds ${present.join(", ")}`
    }]
  }
}
