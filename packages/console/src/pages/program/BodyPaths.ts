/** The value at a path such as `caps.categories[0].perMonth`; undefined where there is none. */
export const valueAt = (value: unknown, path: string): unknown => {
  for (const name of namesOf(path)) {
    value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined
  }
  return value
}

/** Sets the value at a path, and creates the objects and lists on the way to it. */
export const setAt = (target: object, path: string, value: unknown): void => {
  const names = namesOf(path)
  const last = names.at(-1) ?? ""
  const holder = names.slice(0, -1).reduce((at, name, index) => {
    const present: unknown = Reflect.get(at, name)
    if (typeof present === "object" && present !== null) return present
    const made = /^\d+$/.test(names[index + 1] ?? "") ? [] : {}
    Reflect.set(at, name, made)
    return made
  }, target)
  Reflect.set(holder, last, value)
}

/** The path without its last part; empty for a path of one part. */
export const parentOf = (path: string): string => path.replace(/(\.[^.[]+|\[\d+\]|^[^.[]+)$/, "")

const namesOf = (path: string): ReadonlyArray<string> => path.match(/[^.[\]]+/g) ?? []
