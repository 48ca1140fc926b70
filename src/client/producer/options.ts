/** The producer's options, and what they come to with the defaults filled in and the rules checked. */
import type { Compression } from '../../base/env.ts'
import { PlayheadError } from '../../base/error.ts'
import type { Partitioner } from './partitioner.ts'
import type { BytesInput, ProducerRecord, Serializer } from './record.ts'

/**
 * Who must have a record before it counts as sent: 'all' (-1): every replica in sync; 'leader' (1): the leader;
 * 'none' (0): nobody, and its offset is not told.
 */
export type Acks = 'all' | 'leader' | 'none' | -1 | 0 | 1

/** What a producer is made with. All of it may be left out. */
export interface ProducerOptions<K = BytesInput, V = BytesInput> {
  /** Who must have a record before it counts as written: all in-sync replicas, the leader, or nobody. Default 'all'. */
  readonly acks?: Acks
  /** Default 'none'. */
  readonly compression?: Compression
  /** gzip: 1 to 9; zstd: 1 to 22; more is smaller and slower. snappy and lz4 have none. Default: the library's own. */
  readonly compressionLevel?: number
  /**
   * How long a batch waits for more records, in ms. Default 0: it leaves when the current turn of the event
   * loop ends and, when requests are under way already, gathers more until one of them is answered.
   */
  readonly lingerMs?: number
  /** Most bytes of a batch of several records, before compression. Default 1,000,000. */
  readonly batchBytes?: number
  /**
   * Most bytes of a batch with one record, before compression; a larger one is refused as TOO_LARGE. Default
   * 1,048,588, as the broker's `message.max.bytes`.
   */
  readonly maxMessageBytes?: number
  /** Most bytes of a request of several batches. Default 8 MiB. */
  readonly maxRequestBytes?: number
  /** Records taken and not yet acknowledged; from here on sends wait for room. Default 32 MiB. */
  readonly maxBufferedBytes?: number
  /** Calls that wait for room or for a topic; further ones are refused as QUEUE_FULL. Default 100,000. */
  readonly maxWaitingSends?: number
  /** Requests under way to one broker, 1 to 5. Default 5. */
  readonly maxInFlight?: number
  /** The broker keeps each record once and in order, retries or not. Default true with `acks: 'all'`. */
  readonly idempotent?: boolean
  /** Makes the producer transactional; another one that starts with the same id fences this one. */
  readonly transactionalId?: string
  /** The coordinator aborts a transaction that is open longer. Default 60,000. */
  readonly transactionTimeoutMs?: number
  /** Asked about records without `partition`. Default: as Kafka's Java client. */
  readonly partitioner?: Partitioner
  /** From `send` to its promise's end, in ms; retries go on until then. Default 120,000. */
  readonly deliveryTimeoutMs?: number
  /** How long one request waits for its answer, in ms. Default 30,000. */
  readonly requestTimeoutMs?: number
  /** How long a topic that no broker knows is asked for again before UNKNOWN_TOPIC, in ms. Default 10,000. */
  readonly topicTimeoutMs?: number
  /** Makes bytes of keys. Default: keys are bytes or strings. */
  readonly key?: Serializer<K>
  /** Makes bytes of values. Default: values are bytes or strings. */
  readonly value?: Serializer<V>
  /**
   * Sees each record before anything is done with it, in order; what it returns is sent in its stead: headers for a trace,
   * say. What it throws rejects the send with INVALID_ARGUMENT, and nothing of that call is sent.
   */
  readonly onSend?:
    | ((topic: string, record: ProducerRecord<K, V>) => ProducerRecord<K, V> | void)
    | undefined
  /** Called for each `send`, and each topic of a `sendMany`, when its outcome is known. What it throws is logged. */
  readonly onSettled?: ((outcome: SendOutcome) => void) | undefined
}

/** What became of a call. */
export interface SendOutcome {
  /** Where its records were sent to. */
  readonly topic: string
  /** How many they were. */
  readonly records: number
  /** From the call to its outcome. */
  readonly tookMs: number
  /** Undefined: all were written. */
  readonly error: PlayheadError | undefined
}

export interface Settings {
  readonly acks: -1 | 0 | 1
  readonly compression: Compression
  readonly compressionLevel: number | undefined
  readonly lingerMs: number
  readonly batchBytes: number
  readonly maxMessageBytes: number
  readonly maxRequestBytes: number
  readonly maxBufferedBytes: number
  readonly maxWaitingSends: number
  readonly maxInFlight: number
  readonly idempotent: boolean
  readonly transactionalId: string | null
  readonly transactionTimeoutMs: number
  readonly partitioner: Partitioner | undefined
  readonly deliveryTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly topicTimeoutMs: number
}

const acksCodes: ReadonlyMap<unknown, -1 | 0 | 1> = new Map<unknown, -1 | 0 | 1>([
  ['all', -1],
  ['leader', 1],
  ['none', 0],
  [-1, -1],
  [1, 1],
  [0, 0]
])
const compressions: readonly Compression[] = ['none', 'gzip', 'snappy', 'lz4', 'zstd']
const longestMs = 2 ** 31 - 1

/** Throws INVALID_ARGUMENT for what cannot be. */
export function settingsOf<K, V>(options: ProducerOptions<K, V>): Settings {
  const acks = acksCodes.get(options.acks ?? 'all')
  if (acks === undefined) throw invalid(`acks is 'all', 'leader' or 'none', not ${options.acks}`)
  const compression = options.compression ?? 'none'
  if (!compressions.includes(compression)) {
    throw invalid(`compression is one of ${compressions.join(', ')}, not ${compression}`)
  }
  const idempotent = options.idempotent ?? acks === -1
  if (idempotent && acks !== -1) throw invalid("an idempotent producer needs acks: 'all'")
  const transactionalId = options.transactionalId ?? null
  if (transactionalId === '') throw invalid('transactionalId is not empty')
  if (transactionalId !== null && !idempotent) {
    throw invalid("a transactional producer is idempotent, with acks: 'all'")
  }
  const deliveryTimeoutMs = whole(options, 'deliveryTimeoutMs', 120_000, 1, longestMs)
  const batchBytes = whole(options, 'batchBytes', 1_000_000, 0, 2 ** 30)
  return {
    acks,
    compression,
    compressionLevel: levelOf(compression, options.compressionLevel),
    // What lingers up to its deadline would never be sent.
    lingerMs: within(options, 'lingerMs', 0, 0, deliveryTimeoutMs / 2),
    batchBytes,
    maxMessageBytes: whole(options, 'maxMessageBytes', Math.max(batchBytes, 1_048_588), 1, 2 ** 30),
    maxRequestBytes: whole(options, 'maxRequestBytes', 8 * 1024 * 1024, 1, 2 ** 30),
    maxBufferedBytes: whole(options, 'maxBufferedBytes', 32 * 1024 * 1024, 1, 2 ** 40),
    maxWaitingSends: whole(options, 'maxWaitingSends', 100_000, 1, 2 ** 31),
    maxInFlight: whole(options, 'maxInFlight', 5, 1, 5),
    idempotent,
    transactionalId,
    transactionTimeoutMs: whole(options, 'transactionTimeoutMs', 60_000, 1, longestMs),
    partitioner: options.partitioner,
    deliveryTimeoutMs,
    requestTimeoutMs: whole(options, 'requestTimeoutMs', 30_000, 1, longestMs),
    topicTimeoutMs: Math.min(
      whole(options, 'topicTimeoutMs', 10_000, 0, longestMs),
      deliveryTimeoutMs
    )
  }
}

/** The highest of those that have levels; the lowest is 1. */
const highestLevel: { readonly [C in Compression]?: number } = { gzip: 9, zstd: 22 }

function levelOf(compression: Compression, level: number | undefined): number | undefined {
  if (level === undefined) return undefined
  const most = highestLevel[compression]
  if (most === undefined) throw invalid(`compression '${compression}' has no levels`)
  if (Number.isInteger(level) && level >= 1 && level <= most) return level
  throw invalid(`compressionLevel of ${compression} is a whole number from 1 to ${most}`)
}

function whole<O>(options: O, name: keyof O, byDefault: number, least: number, most: number) {
  const value = within(options, name, byDefault, least, most)
  if (Number.isInteger(value)) return value
  throw invalid(`${String(name)} is a whole number, not ${value}`)
}

function within<O>(options: O, name: keyof O, byDefault: number, least: number, most: number) {
  const value: unknown = options[name] ?? byDefault
  if (typeof value === 'number' && value >= least && value <= most) return value
  throw invalid(`${String(name)} is a number from ${least} to ${most}, not ${String(value)}`)
}

/** A caller's mistake. */
export function invalid(what: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', `producer: ${what}`)
}
