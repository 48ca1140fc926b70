/** What a consumer can be told, with its defaults, and the check of it. */
import { PlayheadError } from '../../base/error.ts'
import {
  type AssignorChoice,
  type AssignorName,
  assignorNames
} from '../../group/member/strategies.ts'
import { ledgerOf } from '../ledger.ts'
import type { TopicPartition } from '../partition.ts'
import type { Serde } from '../serde.ts'
import type { ConsumerRecord } from './record.ts'
import type { RewinderSettings } from './rewind.ts'
import type { OnRewind } from './rewound.ts'
import { type Moment, timestampOf } from '../time.ts'

/** A place to start at: a moment or an end of the log. */
export type StartFrom =
  /** The first record that is still there. */
  | 'earliest'
  /** The next record that will be written. */
  | 'latest'
  /** Nowhere: reading fails with OFFSET_OUT_OF_RANGE where nothing is committed. */
  | 'none'
  /** The first record at or after a time, or so long ago. */
  | Moment

/** Where to go on, or to begin, in a partition. */
export interface SeekTarget extends TopicPartition {
  /** An offset, or where to look for one. */
  readonly offset: number | Exclude<StartFrom, 'none'>
  /**
   * The leader epoch of the record before `offset`, where it was kept with it: then a log that was cut below meanwhile is
   * noticed (KIP-320). Default: unknown.
   */
  readonly leaderEpoch?: number
}

/** How a group shares out its partitions. */
export type GroupProtocol =
  /** KIP-848: the coordinator assigns, partitions move one by one. */
  | 'consumer'
  /** The protocol before: a member assigns. */
  | 'classic'
  /** Playhead's own, on its embedded broker. */
  | 'controller'

/** What holds for every consumer. */
export interface CommonOptions<K, V> {
  /** Used only where nothing is committed. Default 'earliest'. */
  readonly startFrom?: StartFrom
  /** How keys are read. Default: as bytes (Buffer). */
  readonly key?: Serde<K>
  /** How values are read. Default: as bytes (Buffer). */
  readonly value?: Serde<V>
  /**
   * A record that the serde cannot read, or a batch whose checksum is wrong: 'fail' throws, where the record's key or
   * value is read, or the batch was to be delivered; 'skip' reports it by a `skipped` event and goes on. Default 'fail'.
   */
  readonly poison?: 'fail' | 'skip'
  /** Sees each record before it is handed out, in whatever way it is read: for a trace, say. What it throws is logged. */
  onRecord?(this: void, record: ConsumerRecord<K, V>): void
  /** Records of open and aborted transactions are not delivered. Default 'read_committed'. */
  readonly isolation?: 'read_committed' | 'read_uncommitted'
  /** Checks each batch's CRC-32C. Default true. */
  readonly checkCrc?: boolean
  /** The broker answers a fetch once it has so many bytes. Default 1. */
  readonly fetchMinBytes?: number
  /** Or after so long: it says that there is nothing. Default 5,000. */
  readonly fetchMaxWaitMs?: number
  /** At most so many bytes in one answer of a broker. Default 8 MiB. */
  readonly fetchMaxBytes?: number
  /** At most so many bytes of one partition in an answer. Default 1 MiB. A larger batch still comes, alone. */
  readonly partitionMaxBytes?: number
  /** At most so many bytes fetched and not yet delivered, over all brokers. Default 48 MiB. */
  readonly bufferMaxBytes?: number
  /** At most so many bytes come out of a compressed batch. Default 64 MiB. */
  readonly decompressedMaxBytes?: number
  /** Where this consumer runs, as brokers' `broker.rack`: reads from a replica nearby (KIP-392). */
  readonly rackId?: string
  /** `stalled` is said when nothing came for so long although something is there. Default 30,000. */
  readonly stalledAfterMs?: number
}

/** A consumer in a group: the group says which partitions it has, and keeps its offsets. */
export interface GroupOptions<K = Buffer, V = Buffer> extends CommonOptions<K, V> {
  /** The group's name. */
  readonly group: string
  /** Names and patterns. */
  readonly topics: readonly (string | RegExp)[]
  /** Only without a group. */
  readonly assign?: undefined
  /** Default 'auto': 'consumer' where the brokers have it and the group can be one, else 'classic'. */
  readonly protocol?: 'auto' | GroupProtocol
  /**
   * 'auto': what was processed is committed by interval, before a partition is given up, and on close. 'manual': only
   * what `commit()` is called for. Default 'auto'.
   */
  readonly commit?: 'auto' | 'manual'
  /** Default 5,000. */
  readonly commitIntervalMs?: number
  /** A static member (KIP-345): comes back to its partitions within the session. */
  readonly instanceId?: string
  /** KIP-848: the coordinator's assignor, 'uniform' or 'range'. Default: the coordinator's. */
  readonly serverAssignor?: string
  /**
   * Classic: how the leader assigns, best first; the group uses one that all its members offer. With anything
   * but cooperative ones in it, partitions are given up before each rebalance. Default ['cooperative-sticky'], which
   * Java's consumers offer by default, too; a group that refuses that is asked what it uses, and if that is a built-in
   * one (kafkajs: 'RoundRobinAssigner') this member offers it.
   */
  readonly assignors?: readonly AssignorChoice[]
  /**
   * Classic: between two heartbeats. A rebalance is heard of by one, so it takes about as long. Default 1,000, or a third
   * of `sessionTimeoutMs` where that is less. With KIP-848 the broker decides.
   */
  readonly heartbeatIntervalMs?: number
  /** Whether the group can be rewound while this member has partitions of it. Default true. */
  readonly rewindable?: boolean
  /** How often to look for rewinds, in ms: a rewind takes about half of it. Default 1,000. */
  readonly rewindCheckMs?: number
  /**
   * Called when a rewind takes effect here, once for its partitions, before the first record from their targets; what it
   * returns is awaited. When it throws or takes longer than `onRewindTimeoutMs`, an `error` event says so and the rewind
   * goes on.
   */
  readonly onRewind?: OnRewind
  /** Default 30,000. */
  readonly onRewindTimeoutMs?: number
  /**
   * How long handlers at work on a rewound partition are waited for, once their signal has fired, before records from the
   * target are delivered beside them. Default 10,000.
   */
  readonly rewindHandlerWaitMs?: number
  /** The group that rewinds are written to. Default: the group's name and '.rewind'. */
  readonly ledger?: string
  /**
   * How long what is in hand of a partition that has to be given up holds that up before its signal fires; it is waited
   * for until the group's patience ends. Default 5,000.
   */
  readonly revokeWaitMs?: number
  /** A record or batch that is in hand for longer makes the member leave its group. Default 300,000. */
  readonly maxProcessingMs?: number
  /**
   * Without a heartbeat's answer for so long (or for `maxProcessingMs`, where that is less, but for three heartbeats at
   * least) this member may have been expelled: nothing is delivered until the next.
   * With KIP-848 the broker decides when it expels (group.consumer.session.timeout.ms): keep this at its value.
   * Default 45,000, Kafka's.
   */
  readonly sessionTimeoutMs?: number
}

/** A consumer without a group: it has the partitions that it is given, and commits nothing. */
export interface AssignOptions<K = Buffer, V = Buffer> extends CommonOptions<K, V> {
  /** Its partitions, and where each begins. */
  readonly assign: readonly SeekTarget[]
  /** Only without `assign`. */
  readonly group?: undefined
  /** Only without `assign`. */
  readonly topics?: undefined
}

/** What a consumer is made with: in a group, or with partitions of its own. */
export type ConsumerOptions<K = Buffer, V = Buffer> = GroupOptions<K, V> | AssignOptions<K, V>

/** Options of both kinds with every default in. */
export interface Settings {
  readonly group: string | null
  readonly topics: readonly (string | RegExp)[]
  readonly assign: readonly SeekTarget[]
  readonly protocol: 'auto' | GroupProtocol
  readonly startFrom: StartFrom
  readonly key: Serde<unknown> | null
  readonly value: Serde<unknown> | null
  readonly poison: 'fail' | 'skip'
  readonly onRecord: ((record: ConsumerRecord<never, never>) => void) | null
  readonly readCommitted: boolean
  readonly checkCrc: boolean
  readonly fetchMinBytes: number
  readonly fetchMaxWaitMs: number
  readonly fetchMaxBytes: number
  readonly partitionMaxBytes: number
  readonly bufferMaxBytes: number
  readonly decompressedMaxBytes: number
  readonly rackId: string | null
  readonly stalledAfterMs: number
  readonly autoCommit: boolean
  readonly commitIntervalMs: number
  readonly instanceId: string | null
  readonly serverAssignor: string | null
  /** Null: whatever suits the group. */
  readonly assignors: readonly AssignorChoice[] | null
  readonly heartbeatIntervalMs: number
  readonly revokeWaitMs: number
  readonly maxProcessingMs: number
  readonly sessionTimeoutMs: number
  /** Null: this consumer cannot be rewound. */
  readonly rewind: RewinderSettings | null
}

const MiB = 2 ** 20

/** Checks `options` and puts the defaults in. Throws INVALID_ARGUMENT. */
export function settingsOf(options: ConsumerOptions<never, never>): Settings {
  const { group, assign } = options
  if ((group === undefined) === (assign === undefined)) {
    throw invalid('a consumer takes either `group` and `topics`, or `assign`')
  }
  const { topics } = options
  if (group !== undefined && (topics === undefined || topics.length === 0)) {
    throw invalid('a group needs at least one topic')
  }
  if (group === '') throw invalid('the group has an empty name')
  const of = options as Partial<GroupOptions<never, never>>
  const startFrom = options.startFrom ?? 'earliest'
  checkStartFrom(startFrom)
  return {
    group: group ?? null,
    topics: topics ?? [],
    assign: assign ?? [],
    protocol: of.protocol ?? 'auto',
    startFrom,
    key: (options.key as Serde<unknown> | undefined) ?? null,
    value: (options.value as Serde<unknown> | undefined) ?? null,
    poison: oneOf('poison', options.poison ?? 'fail', ['fail', 'skip']),
    onRecord: options.onRecord ?? null,
    readCommitted:
      oneOf('isolation', options.isolation ?? 'read_committed', [
        'read_committed',
        'read_uncommitted'
      ]) === 'read_committed',
    checkCrc: options.checkCrc ?? true,
    fetchMinBytes: atLeast('fetchMinBytes', options.fetchMinBytes ?? 1, 0),
    fetchMaxWaitMs: atLeast('fetchMaxWaitMs', options.fetchMaxWaitMs ?? 5_000, 0),
    fetchMaxBytes: atLeast('fetchMaxBytes', options.fetchMaxBytes ?? 8 * MiB, 1),
    partitionMaxBytes: atLeast('partitionMaxBytes', options.partitionMaxBytes ?? MiB, 1),
    bufferMaxBytes: atLeast('bufferMaxBytes', options.bufferMaxBytes ?? 48 * MiB, 1),
    decompressedMaxBytes: atLeast(
      'decompressedMaxBytes',
      options.decompressedMaxBytes ?? 64 * MiB,
      1
    ),
    rackId: options.rackId ?? null,
    stalledAfterMs: atLeast('stalledAfterMs', options.stalledAfterMs ?? 30_000, 1),
    autoCommit: oneOf('commit', of.commit ?? 'auto', ['auto', 'manual']) === 'auto',
    commitIntervalMs: atLeast('commitIntervalMs', of.commitIntervalMs ?? 5_000, 1),
    instanceId: of.instanceId ?? null,
    serverAssignor: of.serverAssignor ?? null,
    assignors: of.assignors === undefined ? null : assignorsOf(of.assignors),
    heartbeatIntervalMs: atLeast(
      'heartbeatIntervalMs',
      of.heartbeatIntervalMs ?? Math.min(1_000, Math.ceil((of.sessionTimeoutMs ?? 45_000) / 3)),
      1
    ),
    revokeWaitMs: atLeast('revokeWaitMs', of.revokeWaitMs ?? 5_000, 0),
    maxProcessingMs: atLeast('maxProcessingMs', of.maxProcessingMs ?? 300_000, 1),
    sessionTimeoutMs: atLeast('sessionTimeoutMs', of.sessionTimeoutMs ?? 45_000, 1),
    rewind: group === undefined || of.rewindable === false ? null : rewindSettings(group, of)
  }
}

function rewindSettings(group: string, of: Partial<GroupOptions<never, never>>): RewinderSettings {
  return {
    group,
    ledger: of.ledger ?? ledgerOf(group),
    rewindCheckMs: atLeast('rewindCheckMs', of.rewindCheckMs ?? 1_000, 1),
    rewindHandlerWaitMs: atLeast('rewindHandlerWaitMs', of.rewindHandlerWaitMs ?? 10_000, 0),
    onRewindTimeoutMs: atLeast('onRewindTimeoutMs', of.onRewindTimeoutMs ?? 30_000, 1),
    onRewind: of.onRewind ?? null
  }
}

function assignorsOf(choices: readonly AssignorChoice[]): readonly AssignorChoice[] {
  if (choices.length === 0) throw invalid('assignors has at least one name')
  const names = choices.map(choice => {
    if (typeof choice === 'string') return oneOf('each of assignors', choice, assignorNames)
    const { name, assign } = choice
    const named = typeof name === 'string' && name !== ''
    if (!named || typeof assign !== 'function') {
      throw invalid('an assignor of your own has a name and a function `assign`')
    }
    if (assignorNames.includes(name as AssignorName)) {
      throw invalid(`'${name}' is the name of a built-in assignor`)
    }
    return name
  })
  if (new Set(names).size < names.length) throw invalid('assignors has each name once')
  return choices
}

export function checkStartFrom(startFrom: StartFrom): void {
  if (startFrom === 'earliest' || startFrom === 'latest' || startFrom === 'none') return
  if (typeof startFrom === 'object' && startFrom !== null) {
    if ('ago' in startFrom || 'time' in startFrom) {
      timestampOf(startFrom, 0)
      return
    }
  }
  throw invalid(`startFrom is 'earliest', 'latest', 'none', { ago } or { time }`)
}

function atLeast(name: string, value: number, least: number): number {
  if (!Number.isFinite(value) || value < least)
    throw invalid(`${name} is a number of at least ${least}`)
  return value
}

function oneOf<const T extends string>(name: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find(one => one === value)
  if (found === undefined) throw invalid(`${name} is one of ${allowed.join(', ')}`)
  return found
}

export function invalid(message: string): PlayheadError {
  return new PlayheadError('INVALID_ARGUMENT', message)
}

/** Where a target that the application gives leads. Throws INVALID_ARGUMENT. */
export function placeOf({ offset, leaderEpoch = -1 }: Pick<SeekTarget, 'offset' | 'leaderEpoch'>) {
  const start = startOf(offset)
  if (!Number.isInteger(leaderEpoch)) throw invalid(`a leader epoch is an integer`)
  return typeof start === 'number' ? { offset: start, leaderEpoch } : start
}

/** Where an offset that the application gives leads. Throws INVALID_ARGUMENT. */
function startOf(offset: SeekTarget['offset']): number | Exclude<StartFrom, 'none'> {
  if (typeof offset !== 'number') {
    checkStartFrom(offset)
    if ((offset as StartFrom) === 'none') throw invalid(`'none' is not an offset`)
    return offset
  }
  if (Number.isSafeInteger(offset) && offset >= 0) return offset
  throw invalid(`offset ${offset} is not an integer from 0 to 2^53 - 1`)
}
