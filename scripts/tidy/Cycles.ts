import { resolveImport } from "./Repository.ts"
import type { Breach, Rule } from "./Rule.ts"

/** Type-only imports count: files that name each other cannot be read one after the other. */
export const importCycle: Rule = {
  name: "import-cycle",
  check: ({ sources }) => {
    const graph = new Map(sources.map(({ file, imports }) => [
      file,
      imports.flatMap((specifier) => resolveImport(file, specifier) ?? [])
    ]))
    return stronglyConnected(graph).filter((files) => files.length > 1).map((files): Breach => {
      const [file = "", ...others] = files.toSorted()
      return { file, message: `imports and is imported by ${others.join(", ")}` }
    })
  }
}

/** Tarjan's algorithm. Every cycle lies within one component. */
const stronglyConnected = (graph: ReadonlyMap<string, ReadonlyArray<string>>): ReadonlyArray<ReadonlyArray<string>> => {
  const order = new Map<string, number>()
  const stack: Array<string> = []
  const components: Array<ReadonlyArray<string>> = []
  const visit = (file: string): number => {
    const index = order.size
    const depth = stack.length
    order.set(file, index)
    stack.push(file)
    let lowest = index
    for (const next of graph.get(file) ?? []) {
      if (!order.has(next)) lowest = Math.min(lowest, visit(next))
      else if (stack.includes(next)) lowest = Math.min(lowest, order.get(next) ?? lowest)
    }
    if (lowest === index) components.push(stack.splice(depth))
    return lowest
  }
  for (const file of graph.keys()) if (!order.has(file)) visit(file)
  return components
}
