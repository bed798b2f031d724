import { ServerResponse } from "node:http"

/**
 * Node's response, with head and text in one write. Told to hold a body against its `content-length`, Node adds an
 * empty chunk; the length of what is sent here is always counted from the text itself.
 */
export class Response extends ServerResponse {}
Object.defineProperty(Response.prototype, "strictContentLength", { get: () => false, set: () => {} })
