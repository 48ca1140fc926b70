/** A caller's record, as bytes, and found fit to be sent. */
import { PlayheadError } from '../../base/error.ts'
import { singleRecordSize } from '../../protocol/records/builder.ts'
import { invalid, type Settings } from './options.ts'
import {
  type BytesInput,
  headersOf,
  isBytes,
  mostRecordBytes,
  type Serializer,
  type WireRecord
} from './record.ts'

/** Throws INVALID_ARGUMENT when the serializer throws. */
export function serialized<T>(
  serializer: Serializer<T> | undefined,
  value: T | undefined,
  topic: string
): BytesInput {
  if (serializer === undefined) return value as BytesInput
  if (value === undefined || value === null) return null
  try {
    if (typeof serializer === 'function') return serializer(value, topic)
    return serializer.serialize(value)
  } catch (cause) {
    const { name } = serializer
    const why = cause instanceof Error ? cause.message : String(cause)
    const message = `producer: ${name || 'a serializer'} refused what was to be sent to ${topic}: ${why}`
    throw new PlayheadError('INVALID_ARGUMENT', message, { topic, cause })
  }
}

/** Throws INVALID_ARGUMENT or TOO_LARGE for a record that cannot be sent; gives its partition, or -1. */
export function check(topic: string, record: WireRecord | undefined, settings: Settings): number {
  if (typeof record !== 'object' || record === null) throw invalid('a record is an object')
  const { key, value, timestamp, partition } = record
  if (!isBytes(key) || !isBytes(value)) {
    throw invalid('key and value are Buffer, Uint8Array, string or null; or give serializers')
  }
  if (timestamp !== undefined && !(Number.isSafeInteger(timestamp) && timestamp >= 0)) {
    throw invalid(`a timestamp is whole milliseconds since 1970, not ${timestamp}`)
  }
  if (partition !== undefined && !(Number.isSafeInteger(partition) && partition >= 0)) {
    throw invalid(`a partition is a whole number from 0, not ${partition}`)
  }
  if (typeof topic !== 'string' || topic === '') throw invalid('a topic has a name')
  const { maxMessageBytes } = settings
  if (mostRecordBytes(record) > maxMessageBytes) {
    const size = singleRecordSize(key, value, headersOf(record.headers))
    if (size > maxMessageBytes) {
      const message = `a record of ${size} bytes for ${topic}; the most is ${maxMessageBytes} (maxMessageBytes)`
      throw new PlayheadError('TOO_LARGE', message, { topic })
    }
  }
  return partition ?? -1
}
