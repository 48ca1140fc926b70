// The records of the benchmark: characters 0…7 are the sequence number in decimal digits, the rest is text that
// compresses about as well as JSON events do. All of it is ASCII, since kafka-ts can only carry text.
import {
  batch,
  connect,
  createTopic,
  deleteTopic,
  endOffsets,
  fetch,
  partitionsOf,
  produce,
  readyFor,
  walk
} from './wire.mjs'

const words =
  'user order basket price total city street stock event state click agent visit value cents count alpha gamma delta omega'.split(
    ' '
  )

let seed = 42
const random = k => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
  return Math.floor((seed / 4294967296) * k)
}

export function filler(size) {
  let text = ''
  while (text.length < size) text += `"${words[random(words.length)]}":${random(100000)},`
  return Buffer.from(text.slice(0, size))
}

/** A factory of values: at(seq) gives a fresh Buffer view, or string; the bytes are laid out before any clock starts. */
export function values(count, size, text = false) {
  const slab = Buffer.allocUnsafeSlow(count * size),
    kinds = Array.from({ length: 64 }, () => filler(size))
  for (let i = 0; i < count; i++) {
    kinds[i & 63].copy(slab, i * size)
    for (let k = 7, n = i; k >= 0; k--, n = Math.floor(n / 10)) slab[i * size + k] = 48 + (n % 10)
  }
  return text
    ? i => slab.latin1Slice(i * size, i * size + size)
    : i => slab.subarray(i * size, i * size + size)
}

/** The number in a value, whether the client hands over bytes or a string. */
export const numberOf = v =>
  typeof v === 'string'
    ? v.charCodeAt(0) * 1e7 +
      v.charCodeAt(1) * 1e6 +
      v.charCodeAt(2) * 1e5 +
      v.charCodeAt(3) * 1e4 +
      v.charCodeAt(4) * 1e3 +
      v.charCodeAt(5) * 100 +
      v.charCodeAt(6) * 10 +
      v.charCodeAt(7) -
      533333328
    : v[0] * 1e7 +
      v[1] * 1e6 +
      v[2] * 1e5 +
      v[3] * 1e4 +
      v[4] * 1e3 +
      v[5] * 100 +
      v[6] * 10 +
      v[7] -
      533333328

/** The character after the number: a mark that some cases use. */
export const markOf = v => (typeof v === 'string' ? v.charCodeAt(8) : v[8]) - 48

/** What arrived: a count, the sum and a hash of the sequence numbers. add(value) touches the value's first 8 bytes. */
export class Tally {
  count = 0
  sum = 0
  xor = 0 // xor: of a multiplicative hash, so that it is not zero whenever count divides by 4
  add(v) {
    const n = numberOf(v)
    this.count++
    this.sum += n
    this.xor ^= Math.imul(n, 0x9e3779b1)
  }
  static expected(n) {
    const t = new Tally()
    t.count = n
    t.sum = (n * (n - 1)) / 2
    for (let i = 0; i < n; i++) t.xor ^= Math.imul(i, 0x9e3779b1)
    return t
  }
  equals(o) {
    return this.count === o.count && this.sum === o.sum && this.xor === o.xor
  }
}

/** Makes sure that a topic holds exactly the records 0…count-1, in batches of about batchBytes, and says so quickly if it does. */
export async function dataset(
  brokers,
  topic,
  { count, size, codec = 'none', partitions = 3, batchBytes = 16384 }
) {
  await readyFor(codec)
  const wire = await connect(brokers)
  try {
    if (await partitionsOf(wire, topic)) {
      const have = (await endOffsets(wire, topic, partitions)).reduce((a, b) => a + b, 0)
      if (have === count) return
      await deleteTopic(wire, topic)
      await new Promise(done => setTimeout(done, 1500))
    }
    await createTopic(wire, topic, partitions, { 'retention.ms': -1, 'retention.bytes': -1 })
    const per = Math.max(1, Math.floor(batchBytes / (size + 8))),
      at = values(count, size)
    let seq = 0,
      turn = 0
    while (seq < count) {
      const batches = []
      for (let k = 0; k < 3 * 16 && seq < count; k++) {
        // several requests' worth of batches, one batch a partition a request
        const list = []
        for (let i = 0; i < per && seq < count; i++) list.push(at(seq++))
        batches.push([turn++ % partitions, batch(list, { codec })])
      }
      for (let i = 0; i < batches.length; i += partitions)
        await produce(wire, topic, batches.slice(i, i + partitions))
    }
  } finally {
    wire.close()
  }
}

/** Reads a topic once and drops it, so that its segments are in the page cache: some machines evict what was not read for a while. */
export async function warm(brokers, topic, partitions = 3) {
  const wire = await connect(brokers),
    ends = await endOffsets(wire, topic, partitions),
    offsets = ends.map(() => 0)
  while (offsets.some((o, p) => o < ends[p])) {
    await fetch(
      wire,
      topic,
      offsets.map((o, p) => [p, o]),
      {},
      (p, bytes) => {
        offsets[p] = Math.max(offsets[p], walk(bytes))
      }
    )
  }
  wire.close()
}
