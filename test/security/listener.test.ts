/**
 * Hostile peers of the broker's listener, row by row of the list of attacks (S1, S2, S4): what makes no sense is closed
 * at once, what is never finished is closed in time, what swells is refused; and others are served all the while.
 */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { Log } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { Broker } from '../../src/broker.ts'
import { CreateTopics } from '../../src/protocol/api/create-topics.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { Wire, batchOf, recordsOf } from '../broker/wire.ts'
import { VirtualWorld } from '../client/consumer/virtual.ts'

const cpu = nodeCpu()
const env = nodeEnv({ cpu })

/** What a broker warned of; an error that it calls its own fails the test. */
function warnings(): { readonly said: string[]; readonly log: Log } {
  const said: string[] = []
  const log: Log = {
    debug() {},
    info() {},
    warn: (message, fields) => said.push(`${message}: ${String(fields?.['error'])}`),
    error: (message, fields) => assert.fail(`${message}: ${String(fields?.['error'])}`)
  }
  return { said, log }
}

/** Sends the bytes, and resolves when the other side has closed. */
function closedAfter(address: string, bytes: Buffer): Promise<void> {
  const [host = '', port] = address.split(':')
  const socket = connect(Number(port), host, () => socket.write(bytes))
  socket.on('error', () => {}).resume()
  return new Promise(resolve => socket.on('close', () => resolve()))
}

function sized(size: number): Buffer {
  const bytes = Buffer.alloc(64)
  bytes.writeInt32BE(size)
  return bytes
}

const nonsense: readonly (readonly [what: string, bytes: Buffer, said: RegExp])[] = [
  ['a frame of no bytes', sized(0), /a frame of 0 bytes/],
  ['a frame of -1 bytes', sized(-1), /a frame of -1 bytes/],
  ['a frame of -2^31 bytes', sized(-(2 ** 31)), /a frame of -2147483648 bytes/],
  ['a frame shorter than a header', sized(7), /short frame/],
  ['a frame of 2^31-1 bytes', sized(2 ** 31 - 1), /a frame of 2147483647 bytes/],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), /looks like HTTP/],
  ['TLS', Buffer.from('16030100f8010000f40303', 'hex'), /looks like a TLS/],
  ['SSH', Buffer.from('SSH-2.0-OpenSSH_9.2\r\n'), /looks like SSH/]
]

test('what is no frame is closed at once, and the log says what it looks like', async () => {
  const { said, log } = warnings()
  await using broker = await Broker.start({ topics: { t: 1 }, log })
  const [address = ''] = broker.bootstrap
  const other = await Wire.connect(env, address)
  for (const [what, bytes, expected] of nonsense) {
    await closedAfter(address, bytes)
    assert.match(said.at(-1) ?? '', expected, what)
    assert.equal((await other.produce('t', 0, batchOf([what]))).errorCode, 0)
  }
  assert.equal(said.length, nonsense.length)
  await other.close()
})

test('half a frame is waited for half a minute, whatever dribbles in; silence ten minutes', async () => {
  const world = await new VirtualWorld().start()
  const { clock } = world
  const pass = (ms: number) => new Promise<void>(resolve => clock.after(ms, resolve))
  const begin = async (bytes: Buffer) => {
    let closedAt = -1
    const socket = world.env('peer').net.connect(
      { host: 'b', port: 9092 },
      {
        onOpen: () => bytes.length > 0 && socket.write([bytes]),
        onData() {},
        onClose: () => {
          closedAt = clock.monotonic()
        }
      }
    )
    await clock.play(pass(100))
    return { socket, closedAt: () => closedAt }
  }
  const half = await begin(Buffer.from([0, 0, 1, 0, 0]))
  const dribble = await begin(Buffer.from([0, 0, 1, 0, 0]))
  const silent = await begin(Buffer.alloc(0))
  const from = clock.monotonic()
  for (let second = 0; second < 50; second++) {
    dribble.socket.write([Buffer.from([0])])
    await clock.play(pass(1_000))
  }
  for (const { closedAt } of [half, dribble]) {
    assert(closedAt() > from + 25_000 && closedAt() < from + 40_000, `after ${closedAt() - from}`)
  }
  assert.equal(silent.closedAt(), -1)
  await clock.play(pass(600_000))
  assert(silent.closedAt() > from + 590_000, `after ${silent.closedAt() - from}`)
  await clock.play(world.broker.close())
})

test('a hundred peers that each send much of a frame of 100 MB are held to what the broker can bear, and others are served', async () => {
  const { log } = warnings()
  await using broker = await Broker.start({ topics: { t: 1 }, log })
  const [address = ''] = broker.bootstrap
  const [host = '', port] = address.split(':')
  const other = await Wire.connect(env, address)
  const start = Buffer.alloc(4)
  start.writeInt32BE(100 * 1024 * 1024)
  // The peers' side of it is in this process too: one piece of memory for all.
  const much = Buffer.alloc(4 * 1024 * 1024)
  const before = process.memoryUsage().arrayBuffers
  const peers = Array.from({ length: 100 }, () => {
    const socket = connect(Number(port), host)
    socket.on('error', () => {}).resume()
    socket.write(start)
    socket.write(much)
    return socket
  })
  let most = 0
  for (let round = 0; round < 100; round++) {
    assert.equal((await other.produce('t', 0, batchOf([`${round}`]))).baseOffset, round)
    most = Math.max(most, process.memoryUsage().arrayBuffers - before)
  }
  assert(most > 20 * 1024 * 1024, 'the peers were heard')
  assert(most < 150 * 1024 * 1024, `${most} bytes more`)
  for (const socket of peers) socket.destroy()
  await other.close()
})

test('when memory is full of requests, one goes on at a time, and all are answered in the end', async () => {
  const { log } = warnings()
  await using broker = await Broker.start({ topics: { t: 1 }, log })
  const [address = ''] = broker.bootstrap
  const wires = await Promise.all(Array.from({ length: 100 }, () => Wire.connect(env, address)))
  const large = batchOf(['x'.repeat(1_000_000)])
  const answers = await Promise.all(wires.map(wire => wire.produce('t', 0, Buffer.from(large))))
  assert.deepEqual(
    answers.map(({ baseOffset }) => baseOffset).toSorted((a, b) => a - b),
    Array.from({ length: 100 }, (_, offset) => offset)
  )
  for (const wire of wires) await wire.close()
})

test('a batch that would swell to gigabytes is refused where it must be looked into', async () => {
  const { log } = warnings()
  await using broker = await Broker.start({ log })
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const configs = [{ name: 'cleanup.policy', value: 'compact' }]
  const topic = { name: 'c', numPartitions: 1, replicationFactor: 1, assignments: [], configs }
  await wire.ask(CreateTopics, 7, { topics: [topic], timeoutMs: 1000 })
  const before = process.memoryUsage()
  const bomb = compressed(gzipSync(Buffer.alloc(200 * 1024 * 1024), { level: 1 }))
  for (let again = 0; again < 2; again++) {
    const { errorCode } = await wire.produce('c', 0, bomb)
    assert.match(kafkaErrorName(errorCode), /CORRUPT_MESSAGE|INVALID_RECORD|MESSAGE_TOO_LARGE/)
  }
  const after = process.memoryUsage()
  const grown = after.heapUsed + after.external - before.heapUsed - before.external
  assert(grown < 150 * 1024 * 1024, `${grown} bytes more`)
  const good = [{ key: 'k', value: 'v' }]
  assert.equal((await wire.produce('c', 0, batchOf(good))).errorCode, 0)
  assert.deepEqual(recordsOf((await wire.fetch('c', 0, 0)).records), ['0:v'])
  await wire.close()
})

/** A batch of one record by its header, with this in its place, compressed by gzip as it says. */
function compressed(payload: Buffer): Buffer {
  const headerBytes = 61
  const batch = Buffer.concat([batchOf(['x']).subarray(0, headerBytes), payload])
  batch.writeInt32BE(batch.length - 12, 8)
  batch.writeInt16BE(1, 21)
  batch.writeUInt32BE(cpu.crc32c(batch.subarray(21)), 17)
  return batch
}
