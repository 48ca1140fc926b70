/**
 * Who is at the other end of a connection, and what it may ask until that is known (KIP-43, KIP-152, KIP-368):
 *
 *   greeting   ApiVersions, SaslHandshake. A handshake leads to `exchange`.
 *   exchange   SaslAuthenticate alone. It leads to `checking`.
 *   checking   nothing, until the mechanism has its verdict: back to `exchange`, to `known`, or to `over`.
 *   known      everything, until the session ends: then ApiVersions and SaslHandshake, and the rest ends the
 *              connection. A handshake leads to `exchange` again, and must lead to the same name.
 *   over       nothing: the connection ends once the refusal is sent.
 */
import type { Env } from '../../base/env.ts'
import { ApiVersions } from '../../protocol/api/api-versions.ts'
import { SaslAuthenticate } from '../../protocol/api/sasl-authenticate.ts'
import { SaslHandshake } from '../../protocol/api/sasl-handshake.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ResponseWritten } from '../../protocol/schema.ts'
import { type Exchange, type Identity, Refused } from './exchange.ts'
import type { SaslSettings } from './options.ts'
import { Penalties } from './penalties.ts'

/** A session is not renewed more often than this, as at Kafka. */
const leastRenewalMs = 1_000

/** What all connections of a cluster share. */
export class Authenticator {
  readonly env: Env
  readonly settings: SaslSettings
  readonly penalties: Penalties

  constructor(env: Env, settings: SaslSettings) {
    this.env = env
    this.settings = settings
    this.penalties = new Penalties(env.clock)
  }
}

type State = 'greeting' | 'exchange' | 'checking' | 'known' | 'over'

/** Of the connection that is being authenticated. */
export interface Peer {
  readonly remoteHost: string
  whenClosed(then: () => void): () => void
}

export class Authentication {
  readonly #shared: Authenticator
  readonly #peer: Peer
  #state: State = 'greeting'
  #mechanism = ''
  #exchange: Exchange | undefined
  #identity: Identity | undefined
  #knownAt = -Infinity
  /** By the monotonic clock. */
  #endsAt = Infinity

  constructor(shared: Authenticator, peer: Peer) {
    this.#shared = shared
    this.#peer = peer
  }

  /** Once it has proved who it is, for the first time. */
  get known(): boolean {
    return this.#identity !== undefined
  }

  get over(): boolean {
    return this.#state === 'over'
  }

  /** Whether it may rewind groups. */
  get mayRewind(): boolean {
    const { rewinders } = this.#shared.settings
    return rewinders === null || rewinders.has(this.#identity?.name ?? '')
  }

  /** Why a request may not be made now; undefined: it may. */
  refusal(apiKey: number): string | undefined {
    switch (this.#state) {
      case 'known':
        if (this.#endsAt > this.#now() || isGreeting(apiKey)) return undefined
        return `API ${apiKey} after the session ended: it had to be renewed by SaslHandshake`
      case 'greeting':
        return isGreeting(apiKey)
          ? undefined
          : `API ${apiKey} before SASL: this listener wants \`sasl\``
      case 'exchange':
        if (apiKey === SaslAuthenticate.key) return undefined
        return `API ${apiKey} within an authentication`
      case 'checking':
      case 'over':
        return `API ${apiKey} before the answer to SaslAuthenticate`
    }
  }

  handshake(mechanism: string): ResponseWritten<typeof SaslHandshake> {
    const { mechanisms } = this.#shared.settings
    const offered = [...mechanisms.keys()]
    const begin = mechanisms.get(mechanism)
    if (begin === undefined) {
      this.#fail(`a client wants ${JSON.stringify(mechanism).slice(0, 100)}, which is not offered`)
      return { errorCode: KafkaError.UNSUPPORTED_SASL_MECHANISM, mechanisms: offered }
    }
    const renewed = this.#identity !== undefined
    const early = this.#now() < this.#knownAt + leastRenewalMs
    if (renewed && (early || mechanism !== this.#mechanism)) {
      return { errorCode: KafkaError.ILLEGAL_SASL_STATE, mechanisms: offered }
    }
    this.#mechanism = mechanism
    this.#exchange = begin()
    this.#state = 'exchange'
    return { errorCode: KafkaError.NONE, mechanisms: offered }
  }

  async authenticate(said: Buffer): Promise<ResponseWritten<typeof SaslAuthenticate>> {
    if (this.#state !== 'exchange' || this.#exchange === undefined) return illegal
    this.#state = 'checking'
    try {
      const { answer, identity } = await this.#exchange(said)
      const sessionLifetimeMs = identity === null ? 0 : this.#begin(identity)
      if (identity === null) this.#state = 'exchange'
      return {
        errorCode: KafkaError.NONE,
        errorMessage: null,
        authBytes: answer,
        sessionLifetimeMs
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      this.#fail(error.message)
      await this.#wait(this.#shared.penalties.failed(this.#peer.remoteHost))
      return refused(this.#mechanism)
    }
  }

  /** It is who it says. Returns how long that holds, in ms; 0: as long as the connection. */
  #begin(identity: Identity): number {
    if (this.#identity !== undefined && this.#identity.name !== identity.name) {
      throw new Refused('a session cannot be renewed by somebody else')
    }
    const leftMs = identity.expiresAt - this.#shared.env.clock.now()
    const lifetimeMs = Math.floor(Math.min(this.#shared.settings.sessionLifetimeMs, leftMs))
    if (lifetimeMs <= 0) throw new Refused('the token has ended')
    this.#identity = identity
    this.#state = 'known'
    this.#exchange = undefined
    this.#knownAt = this.#now()
    this.#endsAt = this.#knownAt + lifetimeMs
    return lifetimeMs === Infinity ? 0 : lifetimeMs
  }

  #fail(why: string): void {
    this.#state = 'over'
    const { remoteHost: host } = this.#peer
    const mechanism = this.#mechanism
    this.#shared.env.log.warn('an authentication failed', { host, mechanism, why })
  }

  #now(): number {
    return this.#shared.env.clock.monotonic()
  }

  /** Shorter when the connection ends: then nobody waits for the answer. */
  #wait(delayMs: number): Promise<void> {
    return new Promise(resolve => {
      const timer = this.#shared.env.clock.after(delayMs, () => {
        forget()
        resolve()
      })
      const forget = this.#peer.whenClosed(() => {
        timer.cancel()
        resolve()
      })
    })
  }
}

function isGreeting(apiKey: number): boolean {
  return apiKey === ApiVersions.key || apiKey === SaslHandshake.key
}

/** In Kafka's words, which people search for. */
function refused(mechanism: string): ResponseWritten<typeof SaslAuthenticate> {
  const errorMessage = `Authentication failed during authentication due to invalid credentials with SASL mechanism ${mechanism}`
  return {
    errorCode: KafkaError.SASL_AUTHENTICATION_FAILED,
    errorMessage,
    authBytes: Buffer.alloc(0)
  }
}

/** Also on a listener that asks nobody, as at Kafka. */
export const illegal: ResponseWritten<typeof SaslAuthenticate> = {
  errorCode: KafkaError.ILLEGAL_SASL_STATE,
  errorMessage: 'SaslAuthenticate comes after SaslHandshake, on a listener with SASL',
  authBytes: Buffer.alloc(0)
}
