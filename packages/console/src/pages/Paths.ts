/**
 * Addresses within the console. They follow `#`, so that no server logs a user's id. The router decodes
 * them once as a whole, hence twice encoded.
 */
const part = (id: string): string => encodeURIComponent(encodeURIComponent(id))

export const userPath = (userId: string): string => `/users/${part(userId)}`
export const transactionPath = (userId: string, transactionId: string): string =>
  `${userPath(userId)}/transactions/${part(transactionId)}`
export const programPath = (programId: string): string => `/programs/${part(programId)}`
export const newVersionPath = (programId: string): string => `${programPath(programId)}/new`
