/**
 * A client that was led to a hostile broker, on real sockets: whatever is said to it, its calls settle within their
 * deadline, its memory stays bounded, it does not spin, and a good broker serves the same process afterwards (S1, S3, S6).
 */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { PlayheadError } from '../../src/base/error.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { Broker } from '../../src/broker.ts'
import { Playhead, type PlayheadOptions } from '../../src/index.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { FindCoordinator } from '../../src/protocol/api/find-coordinator.ts'
import { Metadata } from '../../src/protocol/api/metadata.ts'
import { HostileBroker, type HostileOptions, type HostileRequest, everything } from './hostile.ts'

const timeoutMs = 400
/** Beside the deadline: a busy machine. */
const slackMs = 3_000
const mostBytes = 150 * 1024 * 1024

function client(bootstrap: readonly string[], options: Partial<PlayheadOptions> = {}): Playhead {
  return new Playhead({ bootstrap, log: silentLog, requestTimeoutMs: timeoutMs, ...options })
}

function bytesInUse(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

/** What a call comes to at such a broker; checks that it settles, costs little, and harms nobody else. */
async function meet(
  options: HostileOptions,
  call = (kafka: Playhead) => kafka.cluster.topic('t') as Promise<unknown>
) {
  await using hostile = await HostileBroker.start(options)
  const before = bytesInUse()
  const begun = performance.now()
  let most = 0
  const watching = setInterval(() => (most = Math.max(most, bytesInUse() - before)), 20)
  const kafka = client([hostile.address])
  const outcome = await call(kafka).then(
    () => assert.fail('it came to something'),
    (error: unknown) => error
  )
  await kafka.close()
  clearInterval(watching)
  assert(outcome instanceof PlayheadError, String(outcome))
  const tookMs = performance.now() - begun
  assert(tookMs < timeoutMs + slackMs, `${tookMs} ms`)
  assert(most < mostBytes, `${most} bytes more`)
  // Back-off: 50 ms, doubling; not once a millisecond.
  assert(hostile.connections < 30, `${hostile.connections} connections`)
  await using good = await Broker.start({ topics: { t: 1 }, log: silentLog })
  await using after = client(good.bootstrap)
  await after.cluster.topic('t')
  return { message: outcome.message, code: outcome.code }
}

function sized(size: number, rest = 0): Buffer {
  const bytes = Buffer.alloc(4 + rest)
  bytes.writeInt32BE(size)
  return bytes
}

/** Writes for as long as somebody reads. */
function flood(socket: Socket, chunk: Buffer): void {
  while (!socket.destroyed && socket.write(chunk));
  if (!socket.destroyed) socket.once('drain', () => flood(socket, chunk))
}

/** A frame of `bytes` in answer to the request. */
function framed({ start, socket }: HostileRequest, bytes: Buffer): true {
  const frame = Buffer.concat([sized(bytes.length + 4), Buffer.alloc(4), bytes])
  frame.writeInt32BE(start.correlationId, 4)
  socket.write(frame)
  return true
}

/** What is said instead of an answer to Metadata. */
function atMetadata(say: (request: HostileRequest) => void): HostileOptions {
  return {
    onRequest: request => {
      if (request.api === 'Metadata') say(request)
      return request.api === 'Metadata'
    }
  }
}

/** An ApiVersions answer of version 4, cut off after a count. */
function countOfApis(count: Buffer): HostileOptions {
  return { onRequest: request => framed(request, Buffer.concat([Buffer.from([0, 0]), count])) }
}

const attacks: readonly (readonly [what: string, options: HostileOptions, says: RegExp])[] = [
  ['a frame of -1 bytes', { onConnect: socket => socket.write(sized(-1)) }, /a frame of -1 bytes/],
  [
    'a frame of 2^31-1 bytes',
    { onConnect: socket => socket.write(sized(2 ** 31 - 1)) },
    /a frame of 2147483647 bytes/
  ],
  [
    'a TLS alert',
    { onConnect: socket => socket.write(Buffer.from('15030300020250', 'hex')) },
    /looks like a TLS alert: does this port want TLS/
  ],
  [
    'an answer before any question',
    { onConnect: socket => socket.write(Buffer.concat([sized(4), sized(0)])) },
    /.+/
  ],
  [
    'an answer to no question',
    atMetadata(({ answer }) => {
      answer(ApiVersions, everything, 77)
    }),
    /correlation id 77 where \d+ \(Metadata\) is next/
  ],
  [
    'the answer to another question',
    atMetadata(({ answer }) => answer(ApiVersions, everything)),
    /the broker at 127\.0\.0\.1:\d+, answer to Metadata: \w+ is null/
  ],
  [
    'more answers than questions, without end',
    {
      onRequest: ({ socket, answer }) => {
        answer(ApiVersions, everything)
        flood(socket, Buffer.alloc(65_536, Buffer.concat([sized(4), sized(0)])))
        return true
      }
    },
    /.+/
  ],
  [
    'an endless frame',
    atMetadata(({ socket }) => {
      socket.write(sized(60 * 1024 * 1024))
      flood(socket, Buffer.alloc(65_536))
    }),
    /.+/
  ],
  [
    'a frame that drips',
    atMetadata(({ socket }) => {
      socket.write(sized(1024 * 1024))
      const dripping = setInterval(() => socket.write(Buffer.alloc(1)), 10)
      socket.on('close', () => clearInterval(dripping))
    }),
    /.+/
  ],
  ['silence', atMetadata(() => {}), /.+/],
  ['the end, each time', { onConnect: socket => socket.destroy() }, /.+/],
  [
    'the end after each opening',
    atMetadata(({ socket }) => socket.destroy()),
    /does it want to know who you are/
  ],
  ['a negative count', countOfApis(Buffer.from('00', 'hex')), /null|not nullable|-1/],
  [
    'a count of 2^32-2',
    countOfApis(Buffer.from('ffffffff0f', 'hex')),
    /\d{6,} elements|more than|remain/
  ],
  ['a varint without end', countOfApis(Buffer.alloc(200, 0xff)), /varint/],
  [
    'an error, for ever',
    {
      onRequest: ({ answer }) => {
        answer(ApiVersions, { errorCode: -1, apiKeys: [], throttleTimeMs: 0 })
        return true
      }
    },
    /refused ApiVersions/
  ]
]

for (const [what, options, says] of attacks) {
  test(`a broker that says ${what}: the call settles in time, memory is bounded, others are served`, async () => {
    const { message } = await meet(options)
    assert.match(message, says)
    assert.doesNotMatch(message, /Assertion|undefined|TypeError/)
  })
}

test('metadata without end fills nothing: brokers that are not needed are neither kept nor dialled', async () => {
  let answers = 0
  let port = 0
  await using hostile = await HostileBroker.start(
    atMetadata(({ answer }) => {
      answers++
      const brokers = Array.from({ length: 12_000 }, (_, i) => {
        return { nodeId: answers * 12_000 + i, host: '127.0.0.1', port, rack: null }
      })
      const topics = Array.from({ length: 12_000 }, (_, i) => {
        return { errorCode: 0, name: `unasked-${answers}-${i}`, isInternal: false, partitions: [] }
      })
      answer(Metadata, {
        throttleTimeMs: 0,
        clusterId: 'c',
        controllerId: 1,
        errorCode: 0,
        brokers,
        topics
      })
    })
  )
  port = hostile.port
  await using kafka = client([hostile.address], { requestTimeoutMs: 20_000 })
  await kafka.cluster.refresh()
  const before = bytesInUse()
  for (let i = 0; i < 6; i++) await kafka.cluster.refresh()
  const grown = bytesInUse() - before
  assert(grown < mostBytes, `${grown} bytes more after ${answers} answers`)
  assert.equal(kafka.cluster.metadata.topics.size, 0)
  assert(kafka.cluster.metadata.brokers.size <= 10_000)
  assert(hostile.connections <= answers + 1, `${hostile.connections} connections`)
})

test('a coordinator that is nowhere, or an impossible broker, ends at the deadline and is not asked in a loop', async () => {
  let asked = 0
  const places = [
    { nodeId: -5, host: '127.0.0.1', port: 9 },
    { nodeId: 1, host: '', port: 9 },
    { nodeId: 1, host: '127.0.0.1', port: -1 },
    { nodeId: 1, host: '127.0.0.1', port: 70_000 }
  ]
  const options: HostileOptions = {
    onRequest: ({ api, answer }) => {
      const place = places[asked % places.length]
      if (api === 'Metadata') {
        answer(Metadata, {
          throttleTimeMs: 0,
          clusterId: null,
          controllerId: -1,
          errorCode: 0,
          brokers: [{ ...places[1], nodeId: 1, host: 'x', port: 0, rack: null }],
          topics: []
        })
      } else if (api === 'FindCoordinator' && place) {
        asked++
        const coordinators = [{ key: 'g', ...place, errorCode: 0, errorMessage: null }]
        answer(FindCoordinator, {
          throttleTimeMs: 0,
          errorCode: 0,
          errorMessage: null,
          ...place,
          coordinators
        })
      } else return false
      return true
    }
  }
  await meet(options, kafka => kafka.admin().offsets('g', { timeoutMs }))
  assert(asked < 60, `asked ${asked} times`)
})
