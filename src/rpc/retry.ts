/**
 * Trying again, with a back-off that grows and is never quite the same (jitter), so that clients that lost
 * one broker together don't come back together. The only place that decides how long to wait.
 */
import { onAbort } from '../base/abort.ts'
import type { Clock, Random } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'

/** How long to wait between attempts: twice as long each time, ±20 %. */
export interface Backoff {
  /** Before the second attempt, in ms. */
  readonly firstMs: number
  /** It doubles up to this, in ms. */
  readonly mostMs: number
}

/** Between attempts of one call. */
export const callBackoff: Backoff = { firstMs: 50, mostMs: 1_000 }

/** What trying again needs of the world. */
export interface RetryWorld {
  readonly clock: Clock
  readonly random: Random
}

/** How long to wait after `failures` attempts have failed (1, 2, …): doubling, ±20 %, never above `mostMs`. */
export function backoffMs(random: Random, { firstMs, mostMs }: Backoff, failures: number): number {
  const ms = firstMs * 2 ** Math.min(Math.max(failures - 1, 0), 30)
  return Math.min(ms * (0.8 + 0.4 * random.next()), mostMs)
}

/** What an attempt returns to be tried again; `error` is what to reject with when there is no time left. */
export class Again {
  /** Why; the call rejects with it when the time is up. */
  readonly error: PlayheadError

  constructor(error: PlayheadError) {
    this.error = error
  }
}

export interface RetryOptions {
  /** As of `clock.monotonic()`. */
  readonly deadline: number
  /** Each ends the waiting: with its reason when that is a PlayheadError, else with ABORTED. */
  readonly signals?: readonly (AbortSignal | undefined)[]
  readonly backoff?: Backoff
}

/**
 * Runs `attempt` until it returns something other than `Again`. One that rejects with a retriable error
 * counts as `Again`. After the deadline, or when the next attempt would start after it, it rejects with what
 * the last attempt failed with.
 */
export async function retrying<T>(
  world: RetryWorld,
  options: RetryOptions,
  attempt: (number: number) => Promise<T | Again>
): Promise<T> {
  const { deadline, signals = [], backoff = callBackoff } = options
  for (let number = 1; ; number++) {
    const result = await attempt(number).catch((error: unknown) => {
      if (error instanceof PlayheadError && error.retriable) return new Again(error)
      throw error
    })
    if (!(result instanceof Again)) return result
    const waitMs = backoffMs(world.random, backoff, number)
    if (world.clock.monotonic() + waitMs >= deadline) throw result.error
    await sleep(world.clock, waitMs, signals)
  }
}

/**
 * Of what only asks, and of what may be done twice: it is worth another attempt. Of all else an answer that did not
 * come leaves open whether it was done.
 */
export function isPassing({ retriable, code }: PlayheadError): boolean {
  return retriable || code === 'TIMED_OUT' || code === 'CONNECTION_LOST'
}

/** Waits; rejects as soon as one of the signals fires. */
export function sleep(
  clock: Clock,
  ms: number,
  signals: readonly (AbortSignal | undefined)[] = []
): Promise<void> {
  return new Promise((resolve, reject) => {
    const fired = signals.find(signal => signal?.aborted)
    if (fired) return reject(abortError(fired))
    const finish = () => {
      timer.cancel()
      for (const deafen of listening) deafen?.()
    }
    const timer = clock.after(ms, () => {
      finish()
      resolve()
    })
    const abort = () => {
      finish()
      reject(abortError(signals.find(signal => signal?.aborted)))
    }
    const listening = signals.map(signal => signal && onAbort(signal, abort))
  })
}

/** What a fired signal rejects with. */
export function abortError(signal: AbortSignal | undefined): PlayheadError {
  const reason: unknown = signal?.reason
  if (reason instanceof PlayheadError) return reason
  return new PlayheadError('ABORTED', 'the caller gave up: its signal fired', { cause: reason })
}
