/** Bodies by the name of the example. */
export type Examples = Readonly<Record<string, unknown>>

/** Request and success bodies of an operation; `texts` are success bodies of other content types than JSON. */
export interface OperationExamples {
  readonly request?: Examples
  readonly success?: Examples
  readonly texts?: Readonly<Record<string, string>>
}
