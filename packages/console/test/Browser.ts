import { execFileSync } from "node:child_process"
import {
  accessSync,
  constants,
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync
} from "node:fs"
import { join, resolve } from "node:path"
import { pipeline } from "node:stream/promises"
import { brotliDecompressSync, createBrotliDecompress } from "node:zlib"
import { chromium as playwright, type Browser } from "playwright-core"

interface Program {
  readonly executablePath: string
  readonly env: NodeJS.ProcessEnv
}

const cache = resolve(import.meta.dirname, "../../../node_modules/.cache/card-rewards")

/** Names under which systems have Chromium. */
const names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]

/** Containers have no user namespaces for Chromium's own sandbox, and the pages are ours. */
const args = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none", "--hide-scrollbars"]

/**
 * A real Chromium: the one in `@sparticuz/chromium`, which is unpacked once and needs nothing of the system but Linux
 * on x64, else the system's. Undefined, with the reason, where neither starts; with `CI` set that is an error.
 */
export const launch = async (): Promise<{ readonly browser: Browser | undefined; readonly reason: string }> => {
  const tried: Array<string> = []
  for (const find of [packaged, system]) {
    try {
      return { browser: await playwright.launch({ ...(await find()), args, headless: true }), reason: "" }
    } catch (error) {
      tried.push(error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error))
    }
  }
  const reason = tried.join("; ")
  if (process.env["CI"] !== undefined) throw new Error(`The console's tests have no browser: ${reason}`)
  return { browser: undefined, reason }
}

/** Unpacked once, with the libraries it needs, under a name that only a whole one gets. */
const packaged = async (): Promise<Program> => {
  if (process.platform !== "linux" || process.arch !== "x64") throw new Error("@sparticuz/chromium is for Linux on x64")
  const archives = new URL("../bin/", import.meta.resolve("@sparticuz/chromium"))
  const folder = join(cache, `chromium-${statSync(new URL("chromium.br", archives)).size}`)
  if (!existsSync(folder)) {
    const partial = `${folder}.${process.pid}`
    mkdirSync(partial, { recursive: true })
    const target = createWriteStream(join(partial, "chromium"), { mode: 0o755 })
    await pipeline(createReadStream(new URL("chromium.br", archives)), createBrotliDecompress(), target)
    const libraries = brotliDecompressSync(readFileSync(new URL("al2023.tar.br", archives)))
    execFileSync("tar", ["-x", "-C", partial], { input: libraries })
    moveTo(folder, partial)
  }
  return { executablePath: join(folder, "chromium"), env: { ...process.env, LD_LIBRARY_PATH: join(folder, "lib") } }
}

/** Of several processes that unpack at once, the first one's is kept. */
const moveTo = (folder: string, partial: string): void => {
  try {
    renameSync(partial, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
    rmSync(partial, { recursive: true, force: true })
  }
}

const system = async (): Promise<Program> => {
  const folders = (process.env["PATH"] ?? "").split(":")
  const found = names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable)
  if (found === undefined) throw new Error(`no ${names[0]} in PATH`)
  return { executablePath: found, env: { ...process.env } }
}

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
