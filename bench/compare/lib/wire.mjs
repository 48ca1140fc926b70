// The few Kafka requests the harness itself needs, written against node:net: it creates and loads topics, feeds them,
// checks what was produced and measures the physical limits. No client under test uses it.
import net from 'node:net'
import zlib from 'node:zlib'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url) // native modules only when they are needed, so that they are not in every measurement

class Writer {
  constructor(size = 1024) {
    this.b = Buffer.allocUnsafe(size)
    this.n = 0
  }
  room(k) {
    if (this.n + k <= this.b.length) return
    const bigger = Buffer.allocUnsafe(Math.max(this.b.length * 2, this.n + k))
    this.b.copy(bigger, 0, 0, this.n)
    this.b = bigger
  }
  i8(v) {
    this.room(1)
    this.n = this.b.writeInt8(v, this.n)
    return this
  }
  i16(v) {
    this.room(2)
    this.n = this.b.writeInt16BE(v, this.n)
    return this
  }
  i32(v) {
    this.room(4)
    this.n = this.b.writeInt32BE(v, this.n)
    return this
  }
  i64(v) {
    this.room(8)
    this.n = this.b.writeBigInt64BE(BigInt(v), this.n)
    return this
  }
  str(s) {
    if (s === null) return this.i16(-1)
    const k = Buffer.byteLength(s)
    this.i16(k).room(k)
    this.n += this.b.write(s, this.n)
    return this
  }
  raw(x) {
    this.room(x.length)
    x.copy(this.b, this.n)
    this.n += x.length
    return this
  }
  bytes(x) {
    return this.i32(x.length).raw(x)
  }
  arr(list, each) {
    this.i32(list.length)
    for (const x of list) each(this, x)
    return this
  }
  varint(v) {
    // zigzag, 32 bit
    let z = ((v << 1) ^ (v >> 31)) >>> 0
    this.room(5)
    while (z > 0x7f) {
      this.b[this.n++] = (z & 0x7f) | 0x80
      z >>>= 7
    }
    this.b[this.n++] = z
    return this
  }
  done() {
    return this.b.subarray(0, this.n)
  }
}

class Reader {
  constructor(b) {
    this.b = b
    this.n = 0
  }
  i8() {
    return this.b.readInt8(this.n++)
  }
  i16() {
    const v = this.b.readInt16BE(this.n)
    this.n += 2
    return v
  }
  i32() {
    const v = this.b.readInt32BE(this.n)
    this.n += 4
    return v
  }
  i64() {
    const v = Number(this.b.readBigInt64BE(this.n))
    this.n += 8
    return v
  }
  str() {
    const k = this.i16()
    if (k < 0) return null
    this.n += k
    return this.b.toString('utf8', this.n - k, this.n)
  }
  bytes() {
    const k = this.i32()
    if (k < 0) return null
    this.n += k
    return this.b.subarray(this.n - k, this.n)
  }
  arr(each) {
    const out = []
    for (let k = this.i32(); k > 0; k--) out.push(each(this))
    return out
  }
}

const versions = {
  produce: [0, 7],
  fetch: [1, 4],
  listOffsets: [2, 1],
  metadata: [3, 4],
  createTopics: [19, 2],
  deleteTopics: [20, 1]
}

export function frame(api, body, id = 1) {
  const [key, version] = versions[api]
  const head = new Writer(64).i32(0).i16(key).i16(version).i32(id).str('bench-wire').done()
  head.writeInt32BE(head.length - 4 + body.length, 0)
  return Buffer.concat([head, body])
}

export async function connect(address) {
  const [host, port] = address.split(':')
  const pending = []
  let chunks = [],
    have = 0
  const socket = net.connect({ host, port: +port, noDelay: true })
  socket.on('error', error => {
    for (const p of pending.splice(0)) p.reject(error)
  })
  socket.on('data', chunk => {
    chunks.push(chunk)
    have += chunk.length
    while (have >= 4) {
      if (chunks[0].length < 4) chunks = [Buffer.concat(chunks)]
      const size = chunks[0].readInt32BE(0) + 4
      if (have < size) return
      const all = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
      have -= size
      chunks = have ? [all.subarray(size)] : []
      pending.shift().resolve(all.subarray(8, size)) // past the length and the correlation id
    }
  })
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  const request = (api, body, answer = true) =>
    new Promise((resolve, reject) => {
      if (answer) pending.push({ resolve, reject })
      socket.write(frame(api, body))
      if (!answer) resolve()
    })
  return { request, close: () => socket.destroy(), socket }
}

const check = (code, what) => {
  if (code) throw Object.assign(new Error(`${what}: error ${code}`), { code })
}

export async function partitionsOf(wire, topic) {
  const r = new Reader(
    await wire.request(
      'metadata',
      new Writer()
        .arr([topic], (w, t) => w.str(t))
        .i8(0)
        .done()
    )
  ) // 0: do not create it
  r.i32()
  r.arr(x => [x.i32(), x.str(), x.i32(), x.str()])
  r.str()
  r.i32()
  const [found] = r.arr(x => ({
    error: x.i16(),
    name: x.str(),
    internal: x.i8(),
    partitions: x.arr(p => ({
      error: p.i16(),
      id: p.i32(),
      leader: p.i32(),
      replicas: p.arr(y => y.i32()),
      isr: p.arr(y => y.i32())
    }))
  }))
  return found.error || found.partitions.some(p => p.error) ? null : found.partitions.length
}

export async function createTopic(wire, topic, partitions = 3, configs = {}) {
  const body = new Writer()
    .arr([topic], (w, t) =>
      w
        .str(t)
        .i32(partitions)
        .i16(1)
        .i32(0)
        .arr(Object.entries(configs), (v, [k, x]) => v.str(k).str(String(x)))
    )
    .i32(30_000)
    .i8(0)
    .done()
  const r = new Reader(await wire.request('createTopics', body))
  r.i32()
  r.arr(x => {
    x.str()
    const code = x.i16(),
      text = x.str()
    check(code, `create ${topic}: ${text}`)
  })
  while ((await partitionsOf(wire, topic)) !== partitions)
    await new Promise(done => setTimeout(done, 50))
}

export async function deleteTopic(wire, topic) {
  const r = new Reader(
    await wire.request(
      'deleteTopics',
      new Writer()
        .arr([topic], (w, t) => w.str(t))
        .i32(30_000)
        .done()
    )
  )
  r.i32()
  r.arr(x => {
    x.str()
    x.i16()
  })
}

export async function endOffsets(wire, topic, partitions, time = -1) {
  const ids = Array.from({ length: partitions }, (_, i) => i)
  const r = new Reader(
    await wire.request(
      'listOffsets',
      new Writer()
        .i32(-1)
        .arr([topic], (w, t) => w.str(t).arr(ids, (v, p) => v.i32(p).i64(time)))
        .done()
    )
  )
  const found = [] // the answer's partitions come in any order
  r.arr(x => {
    x.str()
    x.arr(p => {
      const id = p.i32()
      check(p.i16(), 'list offsets')
      p.i64()
      found[id] = p.i64()
    })
  })
  return found
}

const codecs = {
  none: [0, x => x],
  gzip: [1, x => zlib.gzipSync(x)],
  lz4: [3, x => require('lz4-napi').compressFrameSync(x)],
  zstd: [4, x => zlib.zstdCompressSync?.(x) ?? Buffer.from(zstdWasm.compress(x))]
}
let zstdWasm

/** Before batches of `codec` are made: Node has had no zstd before 22.15. */
export async function readyFor(codec) {
  if (codec !== 'zstd' || zlib.zstdCompressSync) return
  zstdWasm = await import('@bokuweb/zstd-wasm')
  await zstdWasm.init()
}

/** One record batch (magic 2), its records without key or headers. */
export function batch(values, { codec = 'none', timestamp = Date.now() } = {}) {
  const [attributes, compress] = codecs[codec]
  const records = new Writer(values.length * (values[0].length + 16))
  values.forEach((value, i) => {
    const length = new Writer(16).i8(0).varint(0).varint(i).varint(-1).varint(value.length).done()
    records
      .varint(length.length + value.length + 1)
      .raw(length)
      .raw(value)
      .varint(0)
  })
  const packed = compress(records.done())
  const w = new Writer(61 + packed.length)
  w.i64(0)
    .i32(49 + packed.length)
    .i32(-1)
    .i8(2)
    .i32(0)
  w.i16(attributes)
    .i32(values.length - 1)
    .i64(timestamp)
    .i64(timestamp)
    .i64(-1)
    .i16(-1)
    .i32(-1)
    .i32(values.length)
    .raw(packed)
  const out = w.done()
  out.writeUInt32BE(require('@node-rs/crc32').crc32c(out.subarray(21)), 17)
  return out
}

export async function produce(wire, topic, batches, acks = -1) {
  // batches: [[partition, bytes]]
  for (let tries = 0; ; tries++) {
    try {
      return await produceOnce(wire, topic, batches, acks)
    } catch (error) {
      if (tries === 50 || ![3, 5, 6].includes(error.code)) throw error // a new topic whose leader is not ready yet
      await new Promise(done => setTimeout(done, 50))
    }
  }
}

async function produceOnce(wire, topic, batches, acks) {
  const body = new Writer(batches.reduce((n, [, b]) => n + b.length + 16, 256))
    .str(null)
    .i16(acks)
    .i32(30_000)
    .arr([topic], (w, t) => w.str(t).arr(batches, (v, [p, b]) => v.i32(p).bytes(b)))
    .done()
  const r = new Reader(await wire.request('produce', body))
  r.arr(x => {
    x.str()
    x.arr(p => {
      p.i32()
      check(p.i16(), 'produce')
      p.i64()
      p.i64()
      p.i64()
    })
  })
}

export const fetchBody = (
  topic,
  offsets,
  { maxBytes = 50 << 20, partitionBytes = 1 << 20, wait = 500, min = 1 } = {}
) =>
  new Writer()
    .i32(-1)
    .i32(wait)
    .i32(min)
    .i32(maxBytes)
    .i8(0)
    .arr([topic], (w, t) =>
      w.str(t).arr(offsets, (v, [p, o]) => v.i32(p).i64(o).i32(partitionBytes))
    )
    .done()

/** Fetches and calls each(partition, recordBytes) for every partition that answered with bytes. */
export async function fetch(wire, topic, offsets, options, each) {
  const r = new Reader(await wire.request('fetch', fetchBody(topic, offsets, options)))
  r.i32()
  r.arr(x => {
    x.str()
    x.arr(p => {
      const id = p.i32()
      check(p.i16(), 'fetch')
      p.i64()
      p.i64()
      p.arr(a => [a.i64(), a.i64()])
      const bytes = p.bytes()
      if (bytes?.length) each(id, bytes)
    })
  })
}

/** Walks complete, uncompressed batches and calls onValue(buffer, start, end); returns the next offset, or -1. */
export function walk(bytes, onValue) {
  let at = 0,
    next = -1
  while (at + 61 <= bytes.length) {
    const end = at + 12 + bytes.readInt32BE(at + 8)
    if (end > bytes.length) break
    next = Number(bytes.readBigInt64BE(at)) + bytes.readInt32BE(at + 23) + 1
    if (onValue && bytes[at + 22] & 7)
      throw new Error('walk reads the records of uncompressed batches only')
    if (onValue && !(bytes[at + 22] & 0x20))
      records(bytes, at + 61, bytes.readInt32BE(at + 57), onValue)
    at = end
  }
  return next
}

function records(b, at, count, onValue) {
  const varint = () => {
    let x = b[at++],
      v = x & 0x7f
    for (let shift = 7; x & 0x80; shift += 7) {
      x = b[at++]
      v |= (x & 0x7f) << shift
    }
    return (v >>> 1) ^ -(v & 1)
  }
  const skip = () => {
    while (b[at++] & 0x80);
  }
  for (; count > 0; count--) {
    const length = varint(),
      end = at + length
    at++ // attributes
    skip()
    skip() // timestamp and offset deltas
    const key = varint()
    if (key > 0) at += key
    const size = varint()
    if (size >= 0) onValue(b, at, at + size)
    at = end
  }
}
