import * as fs from "node:fs"

/**
 * Creates a folder where it is missing. Throws where it belongs to another user, also where this process runs as root:
 * its owner could exchange the keys and the data in it, and could not use what this process has written. The folders
 * above it are not checked.
 */
export const makeOwnFolder = (folder: string): void => {
  fs.mkdirSync(folder, { recursive: true })
  const { uid } = fs.statSync(folder)
  if (process.getuid === undefined || uid === process.getuid()) return
  throw new Error(`it belongs to another user (uid ${uid}): choose a folder of your own`)
}
