/**
 * The broker's half of a SASL mechanism: it is shown bytes and answers bytes, until it knows who that is. What a
 * client is told of a refusal never says what was wrong, the name or the password (security.md S7); the log is told.
 */

/** Who a client has proved to be. */
export interface Identity {
  /** The user's name, without Kafka's 'User:'. */
  readonly name: string
  /** Wall-clock time after which it has to be proved again; Infinity: never. */
  readonly expiresAt: number
}

export interface Step {
  readonly answer: Buffer
  /** Null: the exchange goes on. */
  readonly identity: Identity | null
}

/** One attempt. Rejects with `Refused`, after which it is over. */
export type Exchange = (said: Buffer) => Promise<Step>

/** The attempt failed. The message is for the broker's log; it holds no secret. */
export class Refused extends Error {}

/** Never expires. */
export function known(name: string): Identity {
  return { name, expiresAt: Infinity }
}
