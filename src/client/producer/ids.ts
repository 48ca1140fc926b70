/**
 * The idempotent producer's id, asked of any broker when it is first needed. A transactional one's comes from
 * its coordinator, see transactions.ts.
 */
import { PlayheadError } from '../../base/error.ts'
import { InitProducerId } from '../../protocol/api/init-producer-id.ts'
import { isRetriable } from '../../protocol/errors.ts'
import type { Env } from '../../base/env.ts'
import type { Rpc } from '../../rpc/call.ts'
import { Again, retrying } from '../../rpc/retry.ts'
import { brokerError } from './failure.ts'
import type { Settings } from './options.ts'
import type { Identity } from './partition.ts'

/** Where a producer's id and epoch come from. */
export interface IdentitySource {
  readonly current: Identity | null
  /** Sees to it that there will be one. */
  want(): void
  /** `current` is used up. */
  renew(): void
}

export class ProducerIds implements IdentitySource {
  current: Identity | null = null
  #asking = false
  readonly #rpc: Rpc
  readonly #env: Env
  readonly #settings: Settings
  readonly #signal: AbortSignal
  readonly #done: (error: PlayheadError | null) => void

  /** `done`: there is one now, or it cannot be had. */
  constructor(
    rpc: Rpc,
    env: Env,
    settings: Settings,
    signal: AbortSignal,
    done: (error: PlayheadError | null) => void
  ) {
    this.#rpc = rpc
    this.#env = env
    this.#settings = settings
    this.#signal = signal
    this.#done = done
  }

  want(): void {
    if (this.#asking || this.current !== null) return
    this.#asking = true
    this.#ask().then(
      identity => {
        this.#asking = false
        this.current = identity
        this.#done(null)
      },
      (error: unknown) => {
        this.#asking = false
        if (!(error instanceof PlayheadError)) throw error
        this.#done(error)
      }
    )
  }

  renew(): void {
    this.current = null
    this.want()
  }

  #ask(): Promise<Identity> {
    const { deliveryTimeoutMs, requestTimeoutMs } = this.#settings
    const deadline = this.#env.clock.monotonic() + deliveryTimeoutMs
    const signals = [this.#signal]
    return retrying(this.#env, { deadline, signals }, async () => {
      const body = await this.#rpc.request(
        InitProducerId,
        { transactionalId: null, transactionTimeoutMs: 2 ** 31 - 1 },
        { to: 'any', timeoutMs: requestTimeoutMs, signal: this.#signal }
      )
      const { errorCode, producerId, producerEpoch: epoch } = body
      if (errorCode === 0) return { producerId, epoch }
      const error = brokerError(errorCode, 'no producer id')
      if (isRetriable(errorCode)) return new Again(error)
      throw error
    })
  }
}
