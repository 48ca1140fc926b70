/**
 * Tokens for OAUTHBEARER by the client credentials of OAuth 2 (RFC 6749, 4.4; KIP-768): a client's id and secret are
 * shown to a token endpoint, which gives a token for some minutes. One is asked for when the last has used up 80 % of
 * its life, and the last is used on while the endpoint fails and it still lives.
 */
import type { Clock } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import { isLoopback } from '../../base/loopback.ts'
import { printable } from '../../base/printable.ts'
import { Secret } from '../../base/secret.ts'
import type { OauthToken } from './oauthbearer.ts'

/** Where tokens are, and who asks for them. */
export interface ClientCredentialsOptions {
  /** Its URL: 'https://…'; 'http://…' only on this machine. */
  readonly tokenEndpoint: string
  /** The client's id there. */
  readonly clientId: string
  /** The client's secret there; a `Secret` is not shown when the options are printed. */
  readonly clientSecret: string | Secret
  /** What the token is to allow, in the endpoint's words. */
  readonly scope?: string | undefined
  /** Whatever else the endpoint wants to be told, as `{ audience: 'kafka' }`. */
  readonly parameters?: Readonly<Record<string, string>> | undefined
  /** How id and secret are shown: in the header `Authorization`, or as parameters of the body. Default 'basic'. */
  readonly authentication?: 'basic' | 'body' | undefined
  /** SASL extensions for the broker, as `logicalCluster` at Confluent. */
  readonly extensions?: Readonly<Record<string, string>> | undefined
  /** From a question until its answer, attempts included. Default 8,000: a connection has to be open in 10,000. */
  readonly timeoutMs?: number | undefined
  /** Certificates of authorities that the endpoint's is checked against, PEM. Default: those that come with Node. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[] | undefined
}

/** How the endpoint is asked: the real one is base/node/http.ts. */
export interface TokenWorld {
  readonly clock: Clock
  post(question: {
    readonly url: URL
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
    readonly timeoutMs: number
    readonly mostBytes: number
    readonly ca?: ClientCredentialsOptions['ca']
  }): Promise<{ readonly status: number; readonly body: Buffer }>
}

const mostBytes = 256 * 1024
const attempts = 3
const firstRetryMs = 200
/** Of a token's life; then another is asked for. */
const usedUp = 0.8
/** Of a token that doesn't say. */
const unsaidLifeMs = 60_000
const longestQuote = 200

interface Known {
  readonly token: OauthToken
  readonly renewAt: number
  readonly endsAt: number
}

/** For `sasl.token`. Throws INVALID_ARGUMENT. */
export function tokensByClientCredentials(
  world: TokenWorld,
  options: ClientCredentialsOptions
): () => Promise<OauthToken> {
  const endpoint = new Endpoint(world, options)
  let known: Known | undefined
  let asking: Promise<Known> | undefined
  return async () => {
    const now = world.clock.monotonic()
    if (known !== undefined && now < known.renewAt) return known.token
    // Those who ask at the same time, as several connections do, share the answer.
    asking ??= endpoint.ask().finally(() => {
      asking = undefined
    })
    try {
      known = await asking
    } catch (error) {
      if (known === undefined || world.clock.monotonic() >= known.endsAt) throw error
    }
    return known.token
  }
}

class Endpoint {
  readonly #world: TokenWorld
  readonly #options: ClientCredentialsOptions
  readonly #url: URL
  readonly #secret: Secret
  readonly #timeoutMs: number

  constructor(world: TokenWorld, options: ClientCredentialsOptions) {
    const { clientId, clientSecret, timeoutMs = 8_000 } = options
    this.#world = world
    this.#options = options
    this.#url = readUrl(options.tokenEndpoint)
    this.#secret = typeof clientSecret === 'string' ? new Secret(clientSecret) : clientSecret
    this.#timeoutMs = timeoutMs
    if (clientId === '' || this.#secret.reveal() === '')
      throw wrong('clientId or clientSecret is empty')
    if (!(timeoutMs > 0)) throw wrong(`timeoutMs is ${timeoutMs}: above 0 is needed`)
  }

  async ask(): Promise<Known> {
    const { clock } = this.#world
    const deadline = clock.monotonic() + this.#timeoutMs
    for (let attempt = 1; ; attempt++) {
      const begun = clock.monotonic()
      const answer = await this.#attempt(deadline - begun)
      if (!(answer instanceof PlayheadError)) return this.#known(answer, begun)
      const waitMs = firstRetryMs * 2 ** (attempt - 1)
      const again = answer.retriable && attempt < attempts && begun + waitMs < deadline
      if (!again) throw answer
      await new Promise<void>(resolve => void clock.after(waitMs, resolve))
    }
  }

  async #attempt(timeoutMs: number): Promise<Buffer | PlayheadError> {
    const question = this.#question(timeoutMs)
    let answer: { readonly status: number; readonly body: Buffer }
    try {
      answer = await this.#world.post(question)
    } catch (cause) {
      const why =
        cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : ''
      return this.#failed(why || 'no answer', { cause, retriable: true })
    }
    const { status, body } = answer
    if (status === 200) return body
    return this.#failed(`${status} ${this.#quote(body)}`, {
      retriable: status >= 500 || status === 429
    })
  }

  #question(timeoutMs: number) {
    const { clientId, scope, parameters = {}, authentication = 'basic', ca } = this.#options
    const secret = this.#secret.reveal()
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      ...(scope !== undefined && { scope }),
      ...parameters
    })
    const headers: Record<string, string> = {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded'
    }
    if (authentication === 'basic') headers['authorization'] = `Basic ${basic(clientId, secret)}`
    else {
      form.set('client_id', clientId)
      form.set('client_secret', secret)
    }
    return {
      url: this.#url,
      headers,
      body: form.toString(),
      timeoutMs: Math.max(1, timeoutMs),
      mostBytes,
      ca
    }
  }

  #known(body: Buffer, begun: number): Known {
    const { access_token: token, expires_in: seconds, token_type: type } = fieldsOf(body)
    if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))
      throw this.#failed('its answer holds no access_token')
    if (typeof type === 'string' && type.toLowerCase() !== 'bearer')
      throw this.#failed('its token is no bearer token')
    const lifeMs = Number(seconds) > 0 ? Number(seconds) * 1_000 : unsaidLifeMs
    const { extensions } = this.#options
    return {
      token: { token: new Secret(token), extensions },
      renewAt: begun + lifeMs * usedUp,
      endsAt: begun + lifeMs
    }
  }

  /** What the endpoint says of an error (RFC 6749, 5.2), and nothing that it may have repeated of ours. */
  #quote(body: Buffer): string {
    const { error, error_description: description } = fieldsOf(body)
    const said = [error, description].filter(part => typeof part === 'string').join(': ')
    const header = new Secret(basic(this.#options.clientId, this.#secret.reveal()))
    return printable(this.#secret.hideIn(header.hideIn(said))).slice(0, longestQuote)
  }

  #failed(
    why: string,
    details: { readonly cause?: unknown; readonly retriable?: boolean } = {}
  ): PlayheadError {
    const { origin, pathname } = this.#url
    const message = `the token endpoint ${origin}${pathname} gave no token: ${printable(why.trim())}`
    return new PlayheadError('AUTHENTICATION_FAILED', message, details)
  }
}

function readUrl(text: string): URL {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw wrong('tokenEndpoint is no URL')
  }
  if (url.username !== '' || url.password !== '')
    throw wrong(
      'tokenEndpoint holds a name or password: they belong into clientId and clientSecret'
    )
  if (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)))
    return url
  throw wrong(
    `tokenEndpoint begins with ${url.protocol}//: https:// is needed, or the secret would be shown to the network`
  )
}

/** Both are form-encoded first (RFC 6749, 2.3.1). */
function basic(clientId: string, secret: string): string {
  const encode = (text: string) => new URLSearchParams({ x: text }).toString().slice(2)
  return Buffer.from(`${encode(clientId)}:${encode(secret)}`).toString('base64')
}

function fieldsOf(body: Buffer): { readonly [name: string]: unknown } {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return typeof value === 'object' && value !== null
      ? (value as { readonly [name: string]: unknown })
      : {}
  } catch {
    return {}
  }
}

function wrong(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', `clientCredentials(): ${message}`)
}
