import type { Socket } from "node:net"
import { IncomingMessage } from "./NodeHttp.ts"

/**
 * The maximum number of chunks of a body. For each, which may be a single byte, Node takes some microseconds and makes
 * a buffer of 340 bytes more: a large body in such chunks would cost as much as thousands of requests.
 */
export const maxChunks = 2_048

/**
 * Node's request with two changes. It drops further chunks than the one with which a body has too many: a read of the
 * socket may have more than 10,000, and until the request starts, or after it is refused, nothing else takes them. And
 * its errors end nothing but itself: Node emits that of a lost connection later than it looks for listeners, and the
 * process ends where the reader of the body has meanwhile removed its own.
 */
export class Request extends IncomingMessage {
  #chunks = 0

  constructor(socket: Socket) {
    super(socket)
    this.on("error", ignore)
  }

  override push(chunk: unknown, encoding?: BufferEncoding): boolean {
    if (chunk !== null && ++this.#chunks > maxChunks + 1) return true
    return super.push(chunk, encoding)
  }
}

const ignore = (): void => {}
