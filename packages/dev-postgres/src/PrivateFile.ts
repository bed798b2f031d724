import * as fs from "node:fs"

/** Writes a file that only its owner reads, whole or not at all. */
export const writePrivate = (file: string, content: string): void => fs.renameSync(unfinished(file, content), file)

/** The same where there is no such file. Of several processes that do so at once, the first one's file stays. */
export const createPrivate = (file: string, content: string): void => {
  const own = unfinished(file, content)
  try {
    fs.linkSync(own, file)
  } catch (error) {
    if (!fs.existsSync(file)) throw error
  } finally {
    fs.rmSync(own)
  }
}

const unfinished = (file: string, content: string): string => {
  const own = `${file}.${process.pid}`
  fs.writeFileSync(own, content, { mode: 0o600 })
  return own
}
