/**
 * The value of a record says all about its sending: where it was meant to go, by whom, as which. So a record that
 * turns up in a wrong topic, twice, or damaged is seen by who reads it.
 */
import { crc32c } from '@node-rs/crc32'

/** 'orders:0/p1.2#17/padding/crc': partition, producer and its incarnation, its count. */
export function valueFor(tp: string, producer: string, n: number, padding: number): string {
  const text = `${tp}/${producer}#${n}/${'.'.repeat(padding)}`
  return `${text}/${crc32c(text).toString(16)}`
}

/** The name under which a value is in the history: its bytes but the padding, or what is wrong with them. */
export function nameOfValue(value: Uint8Array | null): string {
  if (value === null) return 'damaged: null'
  const text = Buffer.from(value.buffer, value.byteOffset, value.length).toString('latin1')
  const at = text.lastIndexOf('/')
  const name = text.slice(0, at)
  if (at < 0 || crc32c(name).toString(16) !== text.slice(at + 1)) {
    return `damaged: ${JSON.stringify(text.slice(0, 80))}`
  }
  return name.slice(0, name.lastIndexOf('/'))
}

/** The same for a value that was sent. */
export function nameOfSent(value: string): string {
  return value.slice(0, value.lastIndexOf('/', value.lastIndexOf('/') - 1))
}

/** Where a value was meant to go. */
export function partitionOfValue(name: string): string {
  return name.slice(0, name.indexOf('/'))
}
