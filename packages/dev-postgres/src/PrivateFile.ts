import * as fs from "node:fs"

/** Writes a file that only its owner reads, whole or not at all. */
export const writePrivate = (file: string, content: string): void => {
  const unfinished = `${file}.${process.pid}`
  fs.writeFileSync(unfinished, content, { mode: 0o600 })
  fs.renameSync(unfinished, file)
}
