/** What people meet in TLS, in words that help: what is wrong, and what to do about it, by OpenSSL's and Node's codes. */
import { printable } from '../base/printable.ts'

interface Advice {
  readonly what: string
  readonly help: string
}

/** How much of a certificate's names is repeated, in characters. */
const longestNames = 200

const untrusted: Advice = {
  what: "the peer's certificate is not signed by an authority that is trusted here",
  help: 'Give that authority as `ca` (or `caFile`)'
}
const oursRefused: Advice = {
  what: 'the peer wants a certificate of this side, or does not take the one it got',
  help: 'Give `cert` and `key` (or `certFile`, `keyFile`), signed by an authority that the peer trusts'
}
const noCommonVersion: Advice = {
  what: 'the two sides have no version of TLS in common',
  help: 'Let the peer speak TLS 1.2 or 1.3'
}

/** About who the two sides are: trying again changes nothing. */
const identity = new Map<string, Advice>([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', untrusted],
  ['SELF_SIGNED_CERT_IN_CHAIN', untrusted],
  ['UNABLE_TO_GET_ISSUER_CERT', untrusted],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', untrusted],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', untrusted],
  ['CERT_UNTRUSTED', untrusted],
  ['CERT_SIGNATURE_FAILURE', untrusted],
  [
    'CERT_HAS_EXPIRED',
    {
      what: "the peer's certificate has expired",
      help: 'Renew it there, and look at the clock here'
    }
  ],
  [
    'CERT_NOT_YET_VALID',
    { what: "the peer's certificate is not valid yet", help: 'Look at the clocks of both sides' }
  ],
  [
    'CERT_REVOKED',
    {
      what: "the peer's certificate was revoked",
      help: 'Do not send anything there before you know why'
    }
  ],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', oursRefused],
  ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE', oursRefused],
  ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN', oursRefused],
  ['ERR_SSL_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE', oursRefused],
  ['ERR_SSL_TLSV1_ALERT_ACCESS_DENIED', oursRefused],
  [
    'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
    {
      what: 'the peer does not trust the authority that signed the certificate of this side',
      help: 'Show one that it trusts by `cert` and `key`, or let it trust this authority'
    }
  ],
  [
    'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED',
    { what: 'the peer says that the certificate of this side has expired', help: 'Renew `cert`' }
  ],
  [
    'ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED',
    { what: 'the peer says that the certificate of this side was revoked', help: 'Get another' }
  ]
])

/** About what the two sides speak. */
const language = new Map<string, Advice>([
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', noCommonVersion],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', noCommonVersion],
  ['ERR_SSL_NO_PROTOCOLS_AVAILABLE', noCommonVersion],
  [
    'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
    {
      what: 'the two sides have no cipher in common, or the peer wants a certificate of this side',
      help: 'Give `cert` and `key` if it does; else look at its ciphers'
    }
  ],
  [
    'ERR_SSL_TLSV1_UNRECOGNIZED_NAME',
    { what: 'the peer knows no such name', help: 'Set `servername` to a name that it has' }
  ]
])

const encrypted = '`key` is encrypted, and `passphrase` is missing or not right'

/** About what we were given. */
const options = new Map<string, string>([
  ['ERR_OSSL_X509_KEY_VALUES_MISMATCH', '`key` does not belong to `cert`'],
  ['ERR_OSSL_PEM_NO_START_LINE', '`cert` or `key` is not PEM'],
  [
    'ERR_OSSL_UNSUPPORTED',
    '`key` is no private key in PEM, or is encrypted in a way that is not known'
  ],
  ['ERR_OSSL_BAD_DECRYPT', encrypted],
  ['ERR_OSSL_EVP_BAD_DECRYPT', encrypted],
  ['ERR_MISSING_PASSPHRASE', encrypted],
  ['ERR_OSSL_CRYPTO_INTERRUPTED_OR_CANCELLED', encrypted]
])

/** The options make no sense; the message says which, and why. */
export class TlsOptionsError extends Error {}

export function identityAdvice(code: string, error: Error): string | undefined {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const { cert } = error as Error & { readonly cert?: { readonly subjectaltname?: string } }
    const names = printable(cert?.subjectaltname ?? 'nobody').slice(0, longestNames)
    return `the peer's certificate is for other names than the one dialled: ${names}. Dial one of them, or set \`servername\` (${code})`
  }
  return say(identity.get(code), code)
}

export function languageAdvice(code: string): string | undefined {
  return say(language.get(code), code)
}

export function optionsAdvice(code: string): string | undefined {
  return options.get(code)
}

function say(advice: Advice | undefined, code: string): string | undefined {
  return advice && `${advice.what}. ${advice.help} (${code})`
}
