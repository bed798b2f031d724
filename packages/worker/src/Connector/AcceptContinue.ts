/**
 * Makes undici's parser on a socket read a `100 Continue` as it reads any other interim response. By itself it closes
 * the connection, although a client must be able to parse an unexpected one (RFC 9110, section 15.2). undici has no
 * public function for it; where a version has no such parser, the attempt fails, and so does a test.
 */
export const acceptContinue = (socket: object): void => {
  const symbol = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "parser")
  const parser: unknown = symbol && Reflect.get(socket, symbol)
  if (typeof parser !== "object" || parser === null || !("onHeadersComplete" in parser)) return
  const { onHeadersComplete } = parser
  if (typeof onHeadersComplete !== "function") return
  parser.onHeadersComplete = (status: number, ...others: ReadonlyArray<unknown>): unknown =>
    onHeadersComplete.call(parser, status === 100 ? 102 : status, ...others)
}
