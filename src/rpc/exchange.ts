/**
 * One request and its answer, from the call to its end: the handle that callers hold, and the thing that the
 * cluster, a link and a connection pass on. Its life: finding (a broker), waiting (for a connection), written,
 * settled. Where it stands decides what a failure means: before `written` nothing has happened at the broker,
 * after it the outcome is unknown (invariant C3).
 */
import { assert } from '../base/assert.ts'
import { PlayheadError } from '../base/error.ts'
import type { Api } from '../protocol/schema.ts'
import type { Answer, Call } from './call.ts'

/** Where a request was written: told when its deadline passes. */
export interface Carrier {
  /** What it is connected to, for messages: 'broker 1 at host:9092'. */
  readonly place: string
  expired(exchange: Exchange): void
}

export interface ExchangeOptions {
  readonly deadline: number
  readonly timeoutMs: number
  readonly minVersion?: number | undefined
  readonly maxVersion?: number | undefined
  /** Called once, when it is settled in any way; with the answer when there was one. */
  readonly onSettled?: (exchange: Exchange, answer: Answer<Api> | null) => void
  /**
   * The connection could not be had; nothing was written. Default: the call fails. A cluster looks for
   * another way here, or for the same broker at another place.
   */
  readonly onUndelivered?: (exchange: Exchange, error: PlayheadError) => void
}

export class Exchange implements Call<Api> {
  readonly api: Api
  readonly deadline: number
  readonly minVersion: number
  readonly maxVersion: number
  readonly response: Promise<Answer<Api>>
  /** Null once written: what was sent is not kept. */
  body: unknown
  /** Set when written. */
  correlationId = -1
  version = -1
  writtenAt = -1
  settled = false
  readonly #timeoutMs: number
  readonly #onSettled: ExchangeOptions['onSettled']
  readonly #onUndelivered: ExchangeOptions['onUndelivered']
  #carrier: Carrier | null = null
  #undelivered: PlayheadError | null = null
  #resolve: (answer: Answer<Api>) => void = noop
  #reject: (error: Error) => void = noop
  #written: Promise<void> | null = null
  #resolveWritten: () => void = noop
  #rejectWritten: (error: Error) => void = noop
  #failure: Error | null = null

  constructor(api: Api, body: unknown, options: ExchangeOptions) {
    this.api = api
    this.body = body
    this.deadline = options.deadline
    this.minVersion = Math.max(options.minVersion ?? 0, api.versions[0])
    this.maxVersion = Math.min(options.maxVersion ?? Infinity, api.versions[1])
    this.#timeoutMs = options.timeoutMs
    this.#onSettled = options.onSettled
    this.#onUndelivered = options.onUndelivered
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.response.catch(noop)
  }

  /** Made when asked for: most callers only want the answer. */
  get written(): Promise<void> {
    if (this.#written) return this.#written
    this.#written = new Promise((resolve, reject) => {
      this.#resolveWritten = resolve
      this.#rejectWritten = reject
    })
    this.#written.catch(noop)
    if (this.wasWritten) this.#resolveWritten()
    else if (this.#failure) this.#rejectWritten(this.#failure)
    return this.#written
  }

  get wasWritten(): boolean {
    return this.writtenAt >= 0
  }

  cancel(): void {
    this.fail(new PlayheadError('ABORTED', `${this.api.name} was cancelled${this.#outcome()}`))
  }

  /** Its bytes are in the hands of the network. */
  handedOver(carrier: Carrier, version: number, correlationId: number, at: number): void {
    assert(!this.settled && !this.wasWritten, 'a request is written once')
    this.#carrier = carrier
    this.version = version
    this.correlationId = correlationId
    this.writtenAt = at
    this.body = null
    this.#resolveWritten()
  }

  succeed(answer: Answer<Api>): void {
    if (this.settled) return
    this.#settle(answer)
    this.#resolve(answer)
  }

  fail(error: Error): void {
    if (this.settled) return
    this.#failure = error
    this.#settle(null)
    this.#rejectWritten(error)
    this.#reject(error)
  }

  /** The last attempt to reach the broker failed so: what to say if there is no time for another. */
  waitsAfter(error: PlayheadError | null): void {
    this.#undelivered = error
  }

  /** The connection that it waited for could not be had. */
  undelivered(error: PlayheadError): void {
    assert(!this.wasWritten, 'what was written is not undelivered')
    if (this.settled) return
    this.#undelivered = error
    if (this.#onUndelivered && error.retriable) this.#onUndelivered(this, error)
    else this.fail(error)
  }

  /** The connection that carried it is gone. */
  lost(why: PlayheadError): void {
    const what = `${this.api.name} to ${this.#carrier?.place} may or may not have taken effect`
    this.fail(new PlayheadError('CONNECTION_LOST', `${what}: ${why.message}`, { cause: why }))
  }

  /** The deadline passed. */
  expire(): void {
    if (this.settled) return
    const carrier = this.#carrier
    this.fail(this.#tooLate())
    carrier?.expired(this)
  }

  #tooLate(): PlayheadError {
    const why = this.#undelivered
    if (why && !this.wasWritten) {
      const message = `${why.message} (tried for ${Math.round(this.#timeoutMs)} ms)`
      return new PlayheadError(why.code, message, { retriable: true, cause: why })
    }
    const where = this.#carrier ? ` from ${this.#carrier.place}` : ''
    return new PlayheadError(
      'TIMED_OUT',
      `no answer to ${this.api.name}${where} within ${Math.round(this.#timeoutMs)} ms${this.#outcome()}`,
      { retriable: !this.wasWritten }
    )
  }

  #outcome(): string {
    return this.wasWritten ? ': it may or may not have taken effect' : ': it was never sent'
  }

  #settle(answer: Answer<Api> | null): void {
    this.settled = true
    this.body = null
    this.#onSettled?.(this, answer)
  }
}

function noop(): void {}
