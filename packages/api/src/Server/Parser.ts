import type { Socket } from "node:net"

/**
 * Makes Node's parser skip all further requests of a socket, which is closed or will be. By itself it goes on with what
 * it has read, also after the socket is destroyed, and makes a request and a response of each 20 bytes: 64 KiB on each
 * of 50 connections blocked the event loop for 2 s. Node has no public function for it; where a version has no
 * `onIncoming`, requests of a closed socket cost what they did, and a test of the server fails.
 */
export const skipFurtherRequests = ({ parser }: Socket & { readonly parser?: unknown }): void => {
  if (typeof parser !== "object" || parser === null || !("onIncoming" in parser)) return
  // null where the socket's end has freed the parser for another socket
  if (typeof parser.onIncoming === "function") parser.onIncoming = skip
}

/** Says that what follows on the connection is not HTTP, and that no one takes the connection over. */
const skip = (request: object): number => {
  Object.assign(request, { upgrade: false })
  return 2
}
