/**
 * The keys of the store. A key's first byte says what it is about; then come ids of fixed width, big-endian, so
 * that the order of keys is the order of partitions and offsets. No key is the name of a file (security.md S12).
 */
import type { Cpu } from '../base/env.ts'

/** First bytes of keys. A space is never used again for something else. */
export const spaces = {
  /** Facts about the whole: format version, cluster id, the next producer id. */
  meta: 0x01,
  /** By topic id. */
  topic: 0x02,
  /** By topic id, partition: leader, epochs, log start. */
  partition: 0x03,
  /** By topic id, partition, base offset: the record batch. */
  log: 0x04,
  /** By topic id, partition, base offset: time and size of the log up to there, now and then. */
  index: 0x05,
  /** By topic id, partition, producer id: what tells a retry from a new batch. */
  producer: 0x06,
  /** By topic id, partition, last offset: aborted transactions. */
  aborted: 0x07,
  /** By transactional id. */
  transaction: 0x10,
  /** By group: see group-host.ts. */
  group: 0x20
} as const

export type Space = (typeof spaces)[keyof typeof spaces]

const topicIdBytes = 16

/** space, topic id. */
export function topicKey(space: Space, topicId: string): Buffer {
  const key = Buffer.allocUnsafe(1 + topicIdBytes)
  key[0] = space
  key.write(topicId, 1, topicIdBytes, 'base64url')
  return key
}

/** space, topic id, partition. */
export function partitionKey(space: Space, topicId: string, partition: number): Buffer {
  const key = Buffer.allocUnsafe(1 + topicIdBytes + 4)
  key[0] = space
  key.write(topicId, 1, topicIdBytes, 'base64url')
  key.writeUInt32BE(partition, 1 + topicIdBytes)
  return key
}

/** What begins with `prefix`, then a whole number from 0 to 2^53. */
export function numberKey(prefix: Buffer, number: number): Buffer {
  const key = Buffer.allocUnsafe(prefix.length + 8)
  prefix.copy(key)
  key.writeUInt32BE(Math.floor(number / 0x1_0000_0000), prefix.length)
  key.writeUInt32BE(number >>> 0, prefix.length + 4)
  return key
}

/** The number that `numberKey` put at the end. */
export function numberOf(key: Buffer): number {
  const at = key.length - 8
  return key.readUInt32BE(at) * 0x1_0000_0000 + key.readUInt32BE(at + 4)
}

/** Names this long and shorter stand in keys as they are; longer ones by their SHA-256. */
const longestName = 255

/** space, name: for what clients name freely, such as groups and transactional ids. */
export function nameKey(space: Space, name: string, cpu: Pick<Cpu, 'hash'>): Buffer {
  const bytes = Buffer.from(name, 'utf8')
  const head = Buffer.from([space])
  // A length before it, so that no name is a prefix of another, and a mark of which of the two it is.
  if (bytes.length <= longestName)
    return Buffer.concat([head, Buffer.from([bytes.length, 0]), bytes])
  return Buffer.concat([head, Buffer.from([0, 1]), cpu.hash('sha256', bytes)])
}

/** The first key after all that begin with `prefix`. */
export function afterAll(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix)
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] as number
    if (byte < 0xff) {
      end[at] = byte + 1
      return end.subarray(0, at + 1)
    }
  }
  return Buffer.alloc(0)
}
