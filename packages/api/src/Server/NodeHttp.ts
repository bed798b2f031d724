import type * as http from "node:http"

/**
 * Classes of `node:http`. An import statement of the module reads all of its exports, among them a getter that loads
 * Node's `fetch` and `WebSocket`: 15 to 23 ms of processor time of a start, and 3 MiB (decision 20).
 */
export const { IncomingMessage, Server, ServerResponse } = process.getBuiltinModule("node:http")
export type IncomingMessage = http.IncomingMessage
