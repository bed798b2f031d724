/**
 * Imported before an entry whose parent process has opened a pipe as file descriptor 3: ends this process when the
 * parent ends, by any signal. The kernel then closes the pipe's other end, so nothing has to be polled.
 */
import * as fs from "node:fs"
import * as net from "node:net"

const stopTimeoutMillis = 15_000

const isPipe = () => {
  try {
    const kind = fs.fstatSync(3)
    return kind.isSocket() || kind.isFIFO()
  } catch {
    return false
  }
}

if (isPipe()) {
  const lifeline = new net.Socket({ fd: 3 })
  lifeline.on("error", () => lifeline.destroy())
  lifeline.once("close", () => {
    process.kill(process.pid, "SIGTERM")
    setTimeout(() => process.kill(process.pid, "SIGKILL"), stopTimeoutMillis).unref()
  })
  lifeline.resume().unref()
}
