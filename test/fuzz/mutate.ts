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

/** A well-formed request of any API and version whose fields hold anything. */
export function strange(random: SeededRandom, topicId: string): Buffer {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random.next() * list.length)] as T
  const { handler, first, last } = pick(apis)
  const { api } = handler
  const version = first + Math.floor(random.next() * (last - first + 1))
  const body = of(api.request.fields)
  // Else an answer might be due in weeks.
  const calm = { maxWaitMs: 0, timeoutMs: pick([0, 1, 10]), rebalanceTimeoutMs: pick([0, 1, 100]) }
  return Buffer.concat(
    encodeRequest(api, version, { correlationId: 1, clientId: 'strange' }, { ...body, ...calm })
  )

  function of(fields: Fields): { [name: string]: unknown } {
    const here = Object.entries(fields).filter(
      ([, { since = 0, until = Infinity }]) => version >= since && version <= until
    )
    return Object.fromEntries(here.map(([, field], index) => [here[index]?.[0], valueOf(field)]))
  }

  function valueOf(field: Field): unknown {
    const { type, element, fields = {}, nullable } = field
    if (nullable !== undefined && version >= nullable && random.next() < 0.2) return null
    switch (type) {
      case 'array':
        if (element === undefined) return []
        return Array.from({ length: pick([0, 1, 1, 1, 2, 3]) }, () => valueOf(element))
      case 'struct':
        return of(fields)
      case 'string':
        return pick(strings)
      case 'bytes':
        return pick([
          Buffer.alloc(0),
          Buffer.from([0, 0]),
          Buffer.from('junk'),
          Buffer.alloc(1000, 255)
        ])
      case 'records':
        return damaged(batchOf(['a', 'b', 'c'], pick(headers)))
      case 'uuid':
        return pick([topicId, topicId, ...uuids])
      case 'bool':
        return random.next() < 0.5
      case 'opaque64':
        return BigInt(pick([-1, 0, 1, 1000, 1001, Number.MAX_SAFE_INTEGER]))
      case 'float64':
        return pick([0, -1, Number.NaN, Infinity])
      default: {
        const [least = -Infinity, most = Infinity] = limits[type] ?? []
        const some = type === 'int64' ? longs : numbers
        return random.next() < 0.4
          ? (field.default ?? 0)
          : pick(some.filter(value => value >= least && value <= most))
      }
    }
  }

  /** A batch, mostly with its checksum broken when it is damaged at all. */
  function damaged(batch: Buffer): Buffer {
    if (random.next() < 0.5) return batch
    const copy = Buffer.from(batch)
    copy[Math.floor(random.next() * copy.length)] = pick(nasty)
    return random.next() < 0.8 ? copy : copy.subarray(0, Math.floor(random.next() * copy.length))
  }
}

const headers = [
  {},
  { producerId: 1000n, producerEpoch: 0, baseSequence: 0 },
  { producerId: 1000n, producerEpoch: 0, baseSequence: 0, transactional: true },
  { producerId: 5n, producerEpoch: -1, baseSequence: -1 }
]
