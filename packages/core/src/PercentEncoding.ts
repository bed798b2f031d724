/** Decodes percent-encoded text; undefined where its encoding is broken. */
export const percentDecoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
