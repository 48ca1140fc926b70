/** What a client is told about its cluster, and what it takes for what it isn't told. */
import type { Address, TlsOptions } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { LinkOptions } from './link.ts'
import { type SaslOptions, saslFrom } from './sasl/sasl.ts'

/** Where the cluster is, how to get in, and the limits of talking to it. */
export interface ClusterOptions {
  /** Some brokers, as 'host:port': enough to find the others. The port defaults to 9092. */
  readonly bootstrap: readonly string[]
  /** How brokers call this client in logs, metrics and quotas. Default 'playhead'. */
  readonly clientId?: string | undefined
  /** True, or what to verify and to show. Default: no TLS. */
  readonly tls?: TlsOptions | boolean | undefined
  /** How to authenticate (docs/security.md). Default: not at all. */
  readonly sasl?: SaslOptions | undefined
  /** From a call until its answer, finding the broker included, unless the call says. Default 30,000. */
  readonly requestTimeoutMs?: number | undefined
  /** To open one connection: connect, versions, authentication. Default 10,000. */
  readonly connectTimeoutMs?: number | undefined
  /** What is known of the cluster is asked again after this, or up to a tenth earlier. Default 300,000. */
  readonly metadataMaxAgeMs?: number | undefined
  /** A connection that carried no request for this long ends. Default 540,000. */
  readonly connectionsMaxIdleMs?: number | undefined
  /** Between attempts to connect to a broker: from the first, doubling, to the second. Default 50 and 2,000. */
  readonly reconnectBackoffMs?: number | undefined
  /** The longest wait between two attempts to reach a broker. Default 2,000, ±20 %. */
  readonly reconnectBackoffMaxMs?: number | undefined
  /** Requests on one connection that are written and not yet answered. Default 100. */
  readonly maxInFlight?: number | undefined
  /** Requests that wait for one connection; more fail with QUEUE_FULL. Default 10,000. */
  readonly maxWaiting?: number | undefined
  /** The largest answer taken. Default 128 MiB: 64 MiB and the largest fetch of 64 MiB. */
  readonly maxResponseBytes?: number | undefined
  /** Whether asking for a topic may make it, where the brokers do so. Default false. */
  readonly autoCreateTopics?: boolean | undefined
}

/** The same, read and checked. */
export interface ClusterSettings {
  readonly bootstrap: readonly Address[]
  readonly tls: TlsOptions | undefined
  readonly requestTimeoutMs: number
  readonly metadataMaxAgeMs: number
  readonly autoCreateTopics: boolean
  readonly link: LinkOptions
}

const defaultPort = 9092

/** Throws INVALID_ARGUMENT. */
export function readOptions(options: ClusterOptions): ClusterSettings {
  const tls = options.tls === true ? {} : options.tls || undefined
  const { bootstrap, clientId = 'playhead', sasl } = options
  if (bootstrap.length === 0) throw invalid('bootstrap is empty: name at least one broker')
  return {
    bootstrap: bootstrap.map(text => address(text, tls)),
    tls,
    requestTimeoutMs: positive('requestTimeoutMs', options.requestTimeoutMs, 30_000),
    metadataMaxAgeMs: positive('metadataMaxAgeMs', options.metadataMaxAgeMs, 300_000),
    autoCreateTopics: options.autoCreateTopics ?? false,
    link: {
      clientId,
      sasl: sasl ? saslFrom(sasl, tls !== undefined) : null,
      connectTimeoutMs: positive('connectTimeoutMs', options.connectTimeoutMs, 10_000),
      connectionsMaxIdleMs: positive('connectionsMaxIdleMs', options.connectionsMaxIdleMs, 540_000),
      maxInFlight: positive('maxInFlight', options.maxInFlight, 100),
      maxWaiting: positive('maxWaiting', options.maxWaiting, 10_000),
      maxResponseBytes: positive('maxResponseBytes', options.maxResponseBytes, 128 * 1024 * 1024),
      reconnectBackoff: {
        firstMs: positive('reconnectBackoffMs', options.reconnectBackoffMs, 50),
        mostMs: positive('reconnectBackoffMaxMs', options.reconnectBackoffMaxMs, 2_000)
      }
    }
  }
}

/** 'host:port', 'host', '[::1]:port'. */
function address(text: string, tls: TlsOptions | undefined): Address {
  const [, v6, name, digits] = /^(?:\[([^\]]+)\]|([^:[\]\s/]+))(?::([0-9]{1,5}))?$/.exec(text) ?? []
  const host = v6 ?? name
  const port = digits === undefined ? defaultPort : Number(digits)
  if (host === undefined || port < 1 || port > 65_535) {
    throw invalid(`bootstrap: '${text}' is not host:port`)
  }
  return { host, port, tls }
}

function positive(name: string, given: number | undefined, otherwise: number): number {
  const value = given ?? otherwise
  if (!Number.isFinite(value) || value <= 0) throw invalid(`${name} is ${value}: above 0 is needed`)
  return value
}

function invalid(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', message)
}
