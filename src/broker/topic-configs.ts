/**
 * The configuration of a topic: Kafka's names, types and defaults. What a value means here is in few places
 * (retention, compaction, sizes, timestamps); the others are accepted, kept and shown, so that scripts made for
 * Kafka run unchanged.
 */

/** Codes of ConfigDef.Type as DescribeConfigs sends them. */
export const configType = { boolean: 1, string: 2, int: 3, long: 5, double: 6, list: 7 } as const

export interface TopicConfig {
  readonly type: keyof typeof configType
  readonly default: string
  /** The broker's own setting that Kafka shows as its synonym. */
  readonly synonym?: string
  /** Of a number. Default: from `min`. */
  readonly min?: number
  readonly max?: number
  /** Of a string, or of each of a list's elements. */
  readonly oneOf?: readonly string[]
}

const forever = '9223372036854775807'
const most = 2 ** 31 - 1

const configs: { readonly [name: string]: TopicConfig } = {
  'cleanup.policy': {
    type: 'list',
    default: 'delete',
    synonym: 'log.cleanup.policy',
    oneOf: ['delete', 'compact']
  },
  'compression.gzip.level': { type: 'int', default: '-1', min: -1, max: 9 },
  'compression.lz4.level': { type: 'int', default: '9', min: 1, max: 17 },
  'compression.type': {
    type: 'string',
    default: 'producer',
    synonym: 'compression.type',
    oneOf: ['uncompressed', 'zstd', 'lz4', 'snappy', 'gzip', 'producer']
  },
  'compression.zstd.level': { type: 'int', default: '3', min: -131072, max: 22 },
  'delete.retention.ms': {
    type: 'long',
    default: '86400000',
    synonym: 'log.cleaner.delete.retention.ms',
    min: 0
  },
  'file.delete.delay.ms': {
    type: 'long',
    default: '60000',
    synonym: 'log.segment.delete.delay.ms',
    min: 0
  },
  'flush.messages': {
    type: 'long',
    default: forever,
    synonym: 'log.flush.interval.messages',
    min: 1
  },
  'flush.ms': { type: 'long', default: forever, min: 0 },
  'follower.replication.throttled.replicas': { type: 'list', default: '' },
  'index.interval.bytes': {
    type: 'int',
    default: '4096',
    synonym: 'log.index.interval.bytes',
    min: 0
  },
  'leader.replication.throttled.replicas': { type: 'list', default: '' },
  'max.compaction.lag.ms': {
    type: 'long',
    default: forever,
    synonym: 'log.cleaner.max.compaction.lag.ms',
    min: 1
  },
  'max.message.bytes': { type: 'int', default: '1048588', synonym: 'message.max.bytes', min: 0 },
  'message.timestamp.after.max.ms': {
    type: 'long',
    default: '3600000',
    synonym: 'log.message.timestamp.after.max.ms',
    min: 0
  },
  'message.timestamp.before.max.ms': {
    type: 'long',
    default: forever,
    synonym: 'log.message.timestamp.before.max.ms',
    min: 0
  },
  'message.timestamp.type': {
    type: 'string',
    default: 'CreateTime',
    synonym: 'log.message.timestamp.type',
    oneOf: ['CreateTime', 'LogAppendTime']
  },
  'min.cleanable.dirty.ratio': {
    type: 'double',
    default: '0.5',
    synonym: 'log.cleaner.min.cleanable.ratio',
    min: 0,
    max: 1
  },
  'min.compaction.lag.ms': {
    type: 'long',
    default: '0',
    synonym: 'log.cleaner.min.compaction.lag.ms',
    min: 0
  },
  'min.insync.replicas': { type: 'int', default: '1', synonym: 'min.insync.replicas', min: 1 },
  preallocate: { type: 'boolean', default: 'false', synonym: 'log.preallocate' },
  'retention.bytes': { type: 'long', default: '-1', synonym: 'log.retention.bytes' },
  'retention.ms': { type: 'long', default: '604800000', min: -1 },
  'segment.bytes': { type: 'int', default: '1073741824', synonym: 'log.segment.bytes', min: 14 },
  'segment.index.bytes': {
    type: 'int',
    default: '10485760',
    synonym: 'log.index.size.max.bytes',
    min: 4
  },
  'segment.jitter.ms': { type: 'long', default: '0', min: 0 },
  'segment.ms': { type: 'long', default: '604800000', min: 1 },
  'unclean.leader.election.enable': {
    type: 'boolean',
    default: 'false',
    synonym: 'unclean.leader.election.enable'
  }
}

export const topicConfigs: ReadonlyMap<string, TopicConfig> = new Map(Object.entries(configs))

/** What is wrong with a value, for a person; undefined: nothing. */
export function configFault(name: string, value: string | null): string | undefined {
  const config = topicConfigs.get(name)
  if (config === undefined) return `Unknown topic config name: ${name}`
  if (value === null) return `Null value not supported for topic configs: ${name}`
  const wrong = `Invalid value ${value} for configuration ${name}`
  switch (config.type) {
    case 'boolean':
      return /^(true|false)$/i.test(value)
        ? undefined
        : `${wrong}: Expected value to be either true or false`
    case 'string':
    case 'list': {
      const parts = config.type === 'list' ? listOf(value) : [value]
      const bad = parts.find(part => config.oneOf !== undefined && !config.oneOf.includes(part))
      return bad === undefined ? undefined : `${wrong}: must be of ${config.oneOf?.join(', ')}`
    }
    case 'int':
    case 'long':
    case 'double': {
      const number =
        config.type === 'double' || /^[+-]?\d+$/.test(value) ? Number(value) : Number.NaN
      const { min = -Infinity, max = config.type === 'int' ? most : Number(forever) } = config
      if (value.trim() === '' || Number.isNaN(number))
        return `${wrong}: Not a number of type ${config.type.toUpperCase()}`
      return number < min || number > max ? `${wrong}: must be from ${min} to ${max}` : undefined
    }
  }
}

export function listOf(value: string): readonly string[] {
  return value
    .split(',')
    .map(part => part.trim())
    .filter(part => part !== '')
}
