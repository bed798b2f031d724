import type { Socket } from "node:net"
import { ServerResponse } from "./NodeHttp.ts"
import type { Request } from "./Request.ts"

/**
 * Node's response with two changes. It sends head and text in one write: told to hold a body against its
 * `content-length`, Node would add an empty chunk; the length of what is sent here is always counted from the text
 * itself. And it calls {@link onSent}.
 */
export class Response extends ServerResponse<Request> {
  /** Called when the system has all of the response; not where the connection closes before. */
  onSent: (() => void) | undefined

  override detachSocket(socket: Socket): void {
    super.detachSocket(socket)
    this.onSent?.()
  }
}
Object.defineProperty(Response.prototype, "strictContentLength", { get: () => false, set: () => {} })
