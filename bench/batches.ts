/** 100-byte records of lorem ipsum in batches: what benchmarks read, and the least that reading and writing them takes. */
import { nodeCpu } from '../src/base/node/cpu.ts'
import { BatchBuilder } from '../src/protocol/records/builder.ts'
import { BufferPool } from '../src/protocol/records/pool.ts'
import type { Bytes } from '../src/protocol/records/write.ts'

const cpu = nodeCpu()
const pool = new BufferPool(64 * 1024 * 1024)
const words = 'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor'.split(
  ' '
)
let seed = 1

export const texts = Array.from({ length: 10_000 }, (_, index) => {
  let text = `${index}`
  while (text.length < 100) text += ` ${word()}`
  return text.slice(0, 100)
})
export const values = texts.map(text => Buffer.from(text))

function word(): string {
  seed = (seed * 48_271) % 0x7fff_ffff
  return words[seed % words.length] ?? ''
}

/** Batches of about `maxBytes` for `done`, until `totalBytes`; returns how many records they hold. */
export function build(
  list: readonly Bytes[],
  maxBytes: number,
  totalBytes: number,
  done: (batch: Buffer) => void
): number {
  const builder = new BatchBuilder({ maxBytes, pool })
  let count = 0
  let bytes = 0
  while (bytes < totalBytes) {
    if (builder.append(1_700_000_000_000 + count, null, list[count % list.length])) count += 1
    else {
      bytes += builder.sizeBytes
      const batch = builder.close({}, cpu)
      done(batch.bytes)
      batch.release()
    }
  }
  builder.discard()
  return count
}

/** What any reader must do at the least: go over the lengths and touch each value. Checks nothing; returns a sum. */
export function bareRead(bytes: Buffer): number {
  let at = 0
  let sum = 0
  while (at < bytes.length) {
    const end = at + 12 + bytes.readInt32BE(at + 8)
    at += 61
    while (at < end) {
      let byte = bytes[at++] as number
      let length = byte & 0x7f
      if (byte > 0x7f) length |= (bytes[at++] as number) << 7
      const next = at + (length >>> 1)
      at += 1
      while ((bytes[at++] as number) > 0x7f);
      while ((bytes[at++] as number) > 0x7f);
      at += 1 // the null key
      byte = bytes[at++] as number
      if (byte > 0x7f) at += 1
      sum += bytes[at] as number
      at = next
    }
  }
  return sum
}

/** What any writer must do at the least: each value with a few bytes of lengths before it; returns where it ended. */
export function bareWrite(list: readonly Buffer[], into: Buffer): number {
  let at = 61
  for (let i = 0; ; i++) {
    const value = list[i % list.length] as Buffer
    if (at + value.length + 8 > into.length) return at
    into[at++] = 0x80 | (value.length & 0x3f)
    into[at++] = value.length >>> 6
    into[at++] = 0
    into[at++] = i & 0x7f
    into[at++] = i & 0x7f
    into[at++] = 1
    into[at++] = 0x80 | (value.length & 0x3f)
    into[at++] = value.length >>> 6
    into.set(value, at)
    at += value.length
  }
}
