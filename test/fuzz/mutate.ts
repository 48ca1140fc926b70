/** Requests that are almost right: by their bytes, and by their fields. */
import type { SeededRandom } from '../../sim/world/random.ts'
import { dispatchTable } from '../../src/broker/dispatch.ts'
import { encodeRequest } from '../../src/protocol/frame.ts'
import type { Field, Fields } from '../../src/protocol/schema.ts'
import { sample } from '../broker/sample.ts'
import { batchOf } from '../broker/wire.ts'

const apis = [...dispatchTable().values()]

/** A valid request of every version of every API; of Produce with a batch in it. */
export function requests(): Buffer[] {
  const found: Buffer[] = []
  for (const { handler, first, last } of apis) {
    for (let version = first; version <= last; version++) {
      const { api } = handler
      const header = { correlationId: found.length, clientId: 'hostile' }
      const body = { ...sample(api.request.fields, version), maxWaitMs: 0, sessionTimeoutMs: 6000 }
      found.push(Buffer.concat(encodeRequest(api, version, header, body)))
      if (api.name !== 'Produce') continue
      const records = batchOf(['a', 'b'])
      const topicData = [
        {
          name: 't',
          topicId: sample(api.request.fields, version)['topicId'],
          partitionData: [{ index: 0, records }]
        }
      ]
      found.push(Buffer.concat(encodeRequest(api, version, header, { ...body, topicData })))
    }
  }
  return found
}

const nasty = [0, 1, 0x7f, 0x80, 0xff]

/** Some bytes are others, or nasty ones; some are missing, some twice. The size in front is right, mostly. */
export function mutated(request: Buffer, random: SeededRandom): Buffer {
  const whole = (below: number) => Math.floor(random.next() * below)
  let body = Buffer.from(request.subarray(4))
  for (let times = 1 + whole(4); times > 0; times--) {
    const at = whole(body.length)
    const how = random.next()
    if (how < 0.4) body[at] = nasty[whole(nasty.length)] ?? 0
    else if (how < 0.7) body[at] = whole(256)
    else if (how < 0.8) body = body.subarray(0, Math.max(8, at))
    else if (how < 0.9)
      body = Buffer.concat([body.subarray(0, at), body.subarray(whole(body.length))])
    else body.fill(0xff, at, Math.min(body.length, at + 1 + whole(8)))
  }
  const size = Buffer.alloc(4)
  size.writeInt32BE(random.next() < 0.97 ? body.length : whole(2 ** 31))
  return Buffer.concat([size, body])
}

/** What a field may hold that somebody might not have thought of. */
const numbers = [
  -1,
  0,
  1,
  2,
  3,
  -2,
  5,
  127,
  -128,
  255,
  4096,
  32767,
  -32768,
  65536,
  2 ** 31 - 1,
  -(2 ** 31)
]
const longs = [...numbers, -3, -4, -5, 1e12, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER]
const strings = [
  't',
  '',
  'x',
  '__proto__',
  'constructor',
  '0',
  '..',
  't t',
  'consumer',
  'range',
  'uniform',
  'ä€',
  '\0',
  'n'.repeat(300)
]
const uuids = ['AAAAAAAAAAAAAAAAAAAAAA', 'AAAAAAAAAAAAAAAAAAAAAQ', '_____________________w']
const limits: Readonly<Record<string, readonly number[]>> = {
  int8: [-128, 127],
  int16: [-32768, 32767],
  uint16: [0, 65535],
  int32: [-(2 ** 31), 2 ** 31 - 1]
}

/** Makes a value for a field, of anything. */
type Maker = (random: SeededRandom) => unknown

/** Makes a well-formed request of one API and version whose fields hold anything. */
type RequestMaker = (random: SeededRandom) => Uint8Array[]

/** Makers of requests of any API and version; `topicId`: of a topic that is there. */
export function strange(topicId: string): (random: SeededRandom) => Buffer {
  const makers = apis.map(({ handler, first, last }) => {
    const { api } = handler
    return Array.from({ length: last - first + 1 }, (_, index): RequestMaker => {
      const version = first + index
      const body = struct(api.request.fields, version, topicId)
      return random => {
        // Else an answer might be due in weeks.
        const timeoutMs = pick(random, [0, 1, 10])
        const calm = { maxWaitMs: 0, timeoutMs, rebalanceTimeoutMs: pick(random, [0, 1, 100]) }
        const header = { correlationId: 1, clientId: 'strange' }
        return encodeRequest(api, version, header, Object.assign(body(random), calm))
      }
    })
  })
  return random => Buffer.concat(pick(random, pick(random, makers))(random))
}

function pick<T>(random: SeededRandom, list: readonly T[]): T {
  return list[Math.floor(random.next() * list.length)] as T
}

/** Looks at the declaration once, as a million requests are made of it. */
function struct(
  fields: Fields,
  version: number,
  topicId: string
): (random: SeededRandom) => object {
  const makers: [name: string, maker: Maker][] = []
  for (const [name, field] of Object.entries(fields)) {
    const { since = 0, until = Infinity } = field
    if (version >= since && version <= until) makers.push([name, maker(field, version, topicId)])
  }
  return random => {
    const made: { [name: string]: unknown } = {}
    for (const [name, make] of makers) made[name] = make(random)
    return made
  }
}

const lengths = [0, 1, 1, 1, 2, 3]

function maker(field: Field, version: number, topicId: string): Maker {
  const { nullable } = field
  const make = plainMaker(field, version, topicId)
  if (nullable === undefined || version < nullable) return make
  return random => (random.next() < 0.2 ? null : make(random))
}

function plainMaker(field: Field, version: number, topicId: string): Maker {
  const { type, element, fields = {} } = field
  const among = (list: readonly unknown[]) => (random: SeededRandom) => pick(random, list)
  switch (type) {
    case 'array': {
      if (element === undefined) return () => []
      const make = maker(element, version, topicId)
      return random => Array.from({ length: pick(random, lengths) }, () => make(random))
    }
    case 'struct':
      return struct(fields, version, topicId)
    case 'string':
      return among(strings)
    case 'bytes':
      return among([
        Buffer.alloc(0),
        Buffer.from([0, 0]),
        Buffer.from('junk'),
        Buffer.alloc(1000, 255)
      ])
    case 'records':
      return random => damagedBatch(pick(random, batches), random)
    case 'uuid':
      return among([topicId, topicId, ...uuids])
    case 'bool':
      return random => random.next() < 0.5
    case 'opaque64':
      return among([-1, 0, 1, 1000, 1001, Number.MAX_SAFE_INTEGER].map(BigInt))
    case 'float64':
      return among([0, -1, Number.NaN, Infinity])
    default: {
      const [least = -Infinity, most = Infinity] = limits[type] ?? []
      const some = (type === 'int64' ? longs : numbers).filter(n => n >= least && n <= most)
      return random => (random.next() < 0.4 ? (field.default ?? 0) : pick(random, some))
    }
  }
}

/** A batch, mostly with its checksum broken when it is damaged at all. */
function damagedBatch(batch: Buffer, random: SeededRandom): Buffer {
  if (random.next() < 0.5) return batch
  const copy = Buffer.from(batch)
  copy[Math.floor(random.next() * copy.length)] = pick(random, nasty)
  return random.next() < 0.8 ? copy : copy.subarray(0, Math.floor(random.next() * copy.length))
}

const headers = [
  {},
  { producerId: 1000n, producerEpoch: 0, baseSequence: 0 },
  { producerId: 1000n, producerEpoch: 0, baseSequence: 0, transactional: true },
  { producerId: 5n, producerEpoch: -1, baseSequence: -1 }
]

const batches = headers.map(header => batchOf(['a', 'b', 'c'], header))
