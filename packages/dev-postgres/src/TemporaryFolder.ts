import { Effect, type Scope } from "effect"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

const timeoutMillis = 30_000
const pollMillis = 20

/**
 * A new folder whose name begins with `prefix`, removed with the scope. Every user can enter it: otherwise the data of
 * a PostgreSQL that root starts would be elsewhere, and remain there.
 */
export const temporaryFolder = (prefix: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), prefix))
      fs.chmodSync(folder, 0o711)
      return folder
    }),
    removeFolder
  )

/**
 * Removes a folder, also while a server that is stopping writes and removes files in it, at which `rmSync` gives up:
 * with an error, or silently where a file is gone. Dies where the folder is still there after 30 s of real time.
 */
export const removeFolder = (folder: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    for (let waitedMillis = 0;; waitedMillis += pollMillis) {
      const error = removalError(folder)
      if (!fs.existsSync(folder)) return
      if (waitedMillis >= timeoutMillis) throw new Error(`${folder} cannot be removed`, { cause: error })
      await sleep(pollMillis)
    }
  })

const removalError = (folder: string): unknown => {
  try {
    return fs.rmSync(folder, { recursive: true, force: true })
  } catch (error) {
    return error
  }
}
