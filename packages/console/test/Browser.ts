import chromium from "@sparticuz/chromium"
import { accessSync, constants } from "node:fs"
import { join } from "node:path"
import { chromium as playwright, type Browser } from "playwright-core"

/** Names under which systems have Chromium. */
const names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]

/** Containers have no user namespaces for Chromium's own sandbox, and the pages are ours. */
const args = ["--no-sandbox", "--font-render-hinting=none", "--force-color-profile=srgb", "--hide-scrollbars"]

/**
 * A real Chromium: the one in `@sparticuz/chromium`, which is unpacked once and needs nothing of the system but Linux
 * on x64, else the system's. Undefined, with the reason, where neither starts.
 */
export const launch = async (): Promise<{ readonly browser: Browser | undefined; readonly reason: string }> => {
  const tried: Array<string> = []
  for (const find of [packaged, system]) {
    try {
      const executablePath = await find()
      return { browser: await playwright.launch({ executablePath, args, headless: true }), reason: "" }
    } catch (error) {
      tried.push(error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error))
    }
  }
  return { browser: undefined, reason: tried.join("; ") }
}

const packaged = async (): Promise<string> => {
  if (process.platform !== "linux" || process.arch !== "x64")
    throw new Error("@sparticuz/chromium is for Linux on x64")
  return chromium.executablePath()
}

const system = (): Promise<string> => {
  const folders = (process.env["PATH"] ?? "").split(":")
  const found = names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable)
  return found === undefined ? Promise.reject(new Error(`no ${names[0]} in PATH`)) : Promise.resolve(found)
}

const isExecutable = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
