import { Effect, Schema } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"

/** A folder cannot be used. The message is one line. */
export class FolderRefused extends Schema.TaggedError<FolderRefused>()("FolderRefused", { message: Schema.String }) {}

/** Returns the path of `DATA_DIR`, which is created where it is missing. Fails where {@link makeOwnFolder} throws. */
export const makeDataDir = (dataDir: string): Effect.Effect<string, FolderRefused> => {
  const folder = path.resolve(dataDir)
  return Effect.try({
    try: () => makeOwnFolder(folder),
    catch: (cause) =>
      new FolderRefused({
        message: `DATA_DIR: cannot use ${folder}: ${cause instanceof Error ? cause.message : cause}`
      })
  }).pipe(Effect.as(folder))
}

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
