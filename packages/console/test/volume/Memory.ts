import { readFileSync } from "node:fs"
import type { Browser, Page } from "playwright-core"

/** What a tab costs, in megabytes: the objects of its scripts, and all of its process. */
export interface Memory {
  readonly heapMegabytes: number
  readonly processMegabytes: number
}

/** After a garbage collection. Of several renderers, the one that needs most is the tab's. */
export const memoryOf = async (browser: Browser, page: Page): Promise<Memory> => {
  const tab = await page.context().newCDPSession(page)
  await tab.send("HeapProfiler.collectGarbage")
  await tab.send("Performance.enable")
  const { metrics } = await tab.send("Performance.getMetrics")
  await tab.detach()
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send("SystemInfo.getProcessInfo")
  await session.detach()
  const renderers = processInfo.filter(({ type }) => type === "renderer").map(({ id }) => residentMegabytes(id))
  return {
    heapMegabytes: (metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? 0) / 1e6,
    processMegabytes: Math.max(...renderers)
  }
}

const residentMegabytes = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1e3
