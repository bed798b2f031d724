/**
 * Loaded before an entry by whoever starts it with an open pipe as file descriptor 3: ends this process when the
 * starter ends, however it ended. The kernel closes the pipe's other end, so nothing has to be polled.
 */
import * as fs from "node:fs"
import * as net from "node:net"

const patienceMillis = 15_000

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
    setTimeout(() => process.kill(process.pid, "SIGKILL"), patienceMillis).unref()
  })
  lifeline.resume().unref()
}
