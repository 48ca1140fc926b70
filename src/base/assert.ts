/**
 * Bugs assert. What a peer or a caller got wrong is a `PlayheadError`; what we got wrong ends here,
 * in production too: a wrong position is worse than a stopped process.
 */

export class AssertionError extends Error {
  override readonly name = 'AssertionError'
}

/** Throws when `condition` does not hold. The message says what must hold, not what went wrong. */
export function assert(condition: unknown, mustHold: string): asserts condition {
  if (!condition) throw new AssertionError(`a bug in Playhead: this must hold: ${mustHold}`)
}

/** For the default branch of an exhaustive switch: the compiler proves that it is never reached. */
export function unreachable(value: never): never {
  throw new AssertionError(`a bug in Playhead: no case for ${JSON.stringify(value)}`)
}
