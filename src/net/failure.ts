/**
 * Why a connection ended or never came about, as the one error type. Said once, for every implementation of
 * the Net port, so that no layer above has to read a system's error codes.
 */

import { PlayheadError } from '../base/error.ts'
import { TlsOptionsError, identityAdvice, languageAdvice, optionsAdvice } from './tls-failure.ts'

/** What to do about it, for the codes that people meet. */
const advice = new Map([
  ['ECONNREFUSED', 'nobody listens there'],
  ['ENOTFOUND', 'the name is not known'],
  ['EAI_AGAIN', 'the name service does not answer'],
  ['ETIMEDOUT', 'no answer: wrong address, or a firewall'],
  ['EHOSTUNREACH', 'no route there'],
  ['ENETUNREACH', 'no route there'],
  ['ECONNRESET', 'the peer cut the connection'],
  ['EPIPE', 'the peer had ended the connection'],
  ['EADDRINUSE', 'another process listens there: choose another port, or 0 for a free one'],
  ['EADDRNOTAVAIL', 'this machine has no such address'],
  ['EACCES', 'not permitted: ports below 1024 need a right'],
  [
    'ERR_SSL_WRONG_VERSION_NUMBER',
    'the peer does not speak TLS on this port: dial the one that does, or leave `tls` away'
  ],
  [
    'ERR_SSL_PACKET_LENGTH_TOO_LONG',
    'the peer does not speak TLS on this port: dial the one that does, or leave `tls` away'
  ]
])

/** The connection was never open. `secure`: it was to be TLS. */
export function connectFailure(
  host: string,
  port: number,
  cause: Error,
  secure = false
): PlayheadError {
  if (cause instanceof PlayheadError) return cause
  if (isAboutIdentity(cause)) return identityFailure(host, port, cause)
  const what = `cannot connect to ${place(host, port)}`
  if (secure && isAboutOptions(cause)) {
    const told = optionsAdvice(codeOf(cause) ?? '') ?? why(cause)
    return new PlayheadError('INVALID_ARGUMENT', `${what}: TLS options: ${told}`, { cause })
  }
  const cutInHandshake = secure && codeOf(cause) === 'ECONNRESET'
  const reason = cutInHandshake
    ? 'ECONNRESET, the peer does not speak TLS here, or refused ours'
    : why(cause)
  return new PlayheadError('CONNECTION_FAILED', `${what}: ${reason}`, { retriable: true, cause })
}

/** The connection was open, and ended otherwise than by an orderly end. */
export function connectionLoss(host: string, port: number, cause: Error): PlayheadError {
  if (cause instanceof PlayheadError) return cause
  // In TLS 1.3 a server tells what it thinks of our certificate after we believe to be connected.
  return isAboutIdentity(cause)
    ? identityFailure(host, port, cause)
    : new PlayheadError(
        'CONNECTION_LOST',
        `connection to ${place(host, port)} lost: ${why(cause)}`,
        {
          retriable: true,
          cause
        }
      )
}

export function listenFailure(host: string, port: number, cause: Error): PlayheadError {
  return new PlayheadError(
    'INVALID_ARGUMENT',
    `cannot listen at ${place(host, port)}: ${optionsAdvice(codeOf(cause) ?? '') ?? why(cause)}`,
    {
      cause
    }
  )
}

function identityFailure(host: string, port: number, cause: Error): PlayheadError {
  return new PlayheadError(
    'AUTHENTICATION_FAILED',
    `TLS with ${place(host, port)} refused: ${identityAdvice(codeOf(cause) ?? '', cause) ?? `${why(cause)}. Check \`ca\`, \`servername\`, \`cert\` and \`key\``}`,
    { cause }
  )
}

/** As OpenSSL and Node name them: of the peer's certificate, or an alert about ours. */
function isAboutIdentity(error: Error): boolean {
  return /CERT|_CA$|VERIFY|_CRL|ISSUER|ALTNAME|SUBJECT|ACCESS_DENIED/.test(codeOf(error) ?? '')
}

/** Nothing was dialled: what we were given cannot be used. */
function isAboutOptions(error: Error): boolean {
  const code = codeOf(error)
  return code === undefined
    ? error instanceof TlsOptionsError
    : /^ERR_(OSSL|CRYPTO|MISSING_PASS|INVALID_ARG)/.test(code)
}

function why(error: Error): string {
  // Node tries every address of a name, and then its message is empty and the first one's says it.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined
  const code = codeOf(error)
  const text = error.message || (first instanceof Error ? first.message : '') || 'no reason given'
  const told = code === undefined ? undefined : languageAdvice(code)
  if (told !== undefined) return told
  const help = code === undefined ? undefined : advice.get(code)
  if (help !== undefined) return `${code}, ${help}`
  return code === undefined || text.includes(code) ? text : `${code}, ${text}`
}

function codeOf(error: Error): string | undefined {
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

function place(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
