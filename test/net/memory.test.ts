/** The network in memory against the contract of the Net port, then what only it has. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { keepAliveMs, lingerMs } from '../../src/net/limits.ts'
import { MemoryNetwork } from '../../src/net/memory.ts'
import { fairWire, type Link, type Wire } from '../../src/net/wire.ts'
import { VirtualClock } from '../../sim/world/clock.ts'
import { SeededRandom } from '../../sim/world/random.ts'
import { netContract } from './contract.ts'
import { Peer } from './peer.ts'

netContract('memory', () => {
  const clock = new VirtualClock()
  const network = new MemoryNetwork({ clock, random: new SeededRandom(1) })
  return {
    server: network.node('broker'),
    client: network.node('client'),
    host: 'broker',
    listenHost: 'broker',
    until: condition => clock.runUntil(condition),
    checkNothingLeft: async () => assert.equal(clock.pending, 0)
  }
})

/** Two nodes with an open connection. */
async function connected(seed = 1, faults: (fair: Wire) => Partial<Wire> = () => ({})) {
  const clock = new VirtualClock()
  const random = new SeededRandom(seed)
  const fair = fairWire(random)
  const network = new MemoryNetwork({ clock, random, wire: { ...fair, ...faults(fair) } })
  const server = new Peer()
  const listener = await network.node('b').listen({ host: '0.0.0.0', port: 9092 }, socket => {
    server.socket = socket
    return server
  })
  const client = new Peer()
  client.socket = network.node('a').connect({ host: 'b', port: 9092 }, client)
  await clock.runUntil(() => client.opens === 1)
  return { clock, network, listener, client, server }
}

test('the same seed gives the same chunks at the same times', async () => {
  const trace = async (seed: number) => {
    const { clock, client, server } = await connected(seed)
    const hash = createHash('sha1')
    server.whenData = chunk => hash.update(`${clock.monotonic()} ${chunk.length};`)
    for (let i = 0; i < 50; i++) client.its.write([Buffer.alloc(i * 100)])
    client.its.end()
    await clock.runUntil(() => client.closed && server.closed)
    return hash.digest('hex')
  }
  assert.equal(await trace(7), await trace(7))
  assert.notEqual(await trace(7), await trace(8))
})

test('a chunk that is kept beyond the call is overwritten, so that keeping one shows', async () => {
  const { clock, client, server } = await connected()
  const kept: Buffer[] = []
  server.whenData = chunk => kept.push(chunk)
  client.its.write([Buffer.alloc(100, 'a')])
  await clock.runUntil(() => server.byteCount === 100)
  assert(!Buffer.concat(kept).includes('a'))
})

test('loopback is the node itself, and others do not reach what listens there', async () => {
  const clock = new VirtualClock()
  const network = new MemoryNetwork({ clock, random: new SeededRandom(1) })
  const server = new Peer()
  await network.node('b').listen({ host: '127.0.0.1', port: 9092 }, () => server)
  const own = new Peer()
  network.node('b').connect({ host: '127.0.0.1', port: 9092 }, own)
  const other = new Peer()
  network.node('a').connect({ host: 'b', port: 9092 }, other)
  const unknown = new Peer()
  network.node('a').connect({ host: 'c', port: 9092 }, unknown)
  await clock.runUntil(() => own.opens === 1 && other.closed && unknown.closed)
  assert.match(String(other.error?.message), /ECONNREFUSED/)
  assert.match(String(unknown.error?.message), /ENOTFOUND/)
})

test('a clog in one direction holds its bytes, and only those, until it is over', async () => {
  let clogged = false
  const { clock, network, client, server } = await connected(3, fair => ({
    carry: (link, bytes) =>
      clogged && link.from === 'a' ? { bytes, delayMs: Infinity } : fair.carry(link, bytes)
  }))
  clogged = true
  client.its.write([Buffer.from('held')])
  server.its.write([Buffer.from('free')])
  await clock.runUntilIdle()
  assert.deepEqual([client.bytes.toString(), server.bytes.toString()], ['free', ''])
  network.retry()
  await clock.runUntilIdle()
  assert.equal(server.byteCount, 0, 'asked again, the wire still holds it')
  clogged = false
  network.retry()
  await clock.runUntilIdle()
  assert.equal(server.bytes.toString(), 'held')
})

test('bytes sent before a close arrive long after it', async () => {
  const { clock, client, server } = await connected(4, fair => ({
    carry: (link, bytes) =>
      link.from === 'a' ? { bytes, delayMs: 60_000 } : fair.carry(link, bytes),
    lose: (_link, bytes) => bytes
  }))
  client.its.write([Buffer.from('commit')])
  client.its.destroy()
  await clock.runUntil(() => client.closed)
  assert.equal(server.byteCount, 0)
  await clock.runUntil(() => server.closed)
  assert.equal(server.bytes.toString(), 'commit')
  assert(clock.monotonic() >= 60_000)
})

test('a reset comes anywhere in the stream: what arrives is a prefix of what was sent', async () => {
  const sent = Buffer.from(Array.from({ length: 5000 }, (_, i) => i % 251))
  let cutShort = 0
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.integer({ min: 0, max: 2000 }), async (seed, afterUs) => {
      const { clock, client, server } = await connected(seed)
      client.its.write([sent])
      await clock.advance(afterUs / 1000)
      client.its.destroy()
      await clock.runUntil(() => client.closed && server.closed)
      assert.deepEqual(server.bytes, sent.subarray(0, server.byteCount))
      assert(server.error)
      if (server.byteCount > 0 && server.byteCount < sent.length) cutShort++
    })
  )
  assert(cutShort > 0)
})

test('the wire cuts a connection for both sides', async () => {
  const { clock, client, server } = await connected(5, () => ({ carry: () => 'reset' }))
  client.its.write([Buffer.from('x')])
  await clock.runUntil(() => server.closed && client.closed)
  assert(server.error && client.error)
  assert.equal(server.byteCount, 0)
})

test('a call whose answer is held neither opens nor fails, until destroyed', async () => {
  const held: Link[] = []
  const clock = new VirtualClock()
  const random = new SeededRandom(6)
  const fair = fairWire(random)
  const dial = (link: Link) => {
    if (link.direction === 'request') return fair.dial(link)
    held.push(link)
    return Infinity
  }
  const network = new MemoryNetwork({ clock, random, wire: { ...fair, dial } })
  const server = new Peer()
  await network.node('b').listen({ host: 'b', port: 9092 }, () => server)
  const client = new Peer()
  client.socket = network.node('a').connect({ host: 'b', port: 9092 }, client)
  await clock.runUntilIdle()
  assert.equal(held.length, 1)
  assert.deepEqual([client.opens, client.closes], [0, 0])
  client.socket.destroy()
  await clock.runUntilIdle()
  assert.deepEqual([client.closes, server.closes], [1, 1])
})

test('an ended socket whose peer does not read closes with an error in the end', async () => {
  const { clock, client, server } = await connected()
  server.its.pause()
  client.its.write([Buffer.alloc(5_000_000)])
  client.its.end()
  await clock.runUntilIdle()
  assert.equal(client.closed, true)
  assert.match(String(client.error?.message), /the peer is silent/)
  assert(clock.monotonic() >= lingerMs)
})

test('a killed process hears nothing more, and its peers get a reset', async () => {
  const { clock, network, client, server } = await connected(8)
  const dead = network.node('b')
  server.its.write([Buffer.from('last words')])
  client.its.write([Buffer.from('unheard')])
  network.kill('b')
  const heard = server.byteCount
  await clock.runUntil(() => client.closed)
  assert.match(String(client.error?.message), /ECONNRESET/)
  assert('last words'.startsWith(client.bytes.toString()))
  const nobody = new Peer()
  dead.connect({ host: 'a', port: 1 }, nobody)
  await clock.runUntilIdle()
  assert.deepEqual([server.byteCount, server.closes, nobody.closes], [heard, 0, 0])
})

test('after a power loss the connection is half-open, until the machine is back and is sent something', async () => {
  const { clock, network, client, server } = await connected(9)
  network.powerOff('b')
  client.its.write([Buffer.from('anyone?')])
  const caller = new Peer()
  network.node('a').connect({ host: 'b', port: 9092 }, caller)
  await clock.advance(3_600_000)
  assert.deepEqual([client.closes, server.closes, caller.opens, caller.closes], [0, 0, 0, 0])
  network.powerOn('b')
  await network.node('b').listen({ host: 'b', port: 9092 }, () => new Peer())
  await clock.runUntil(() => client.closed && caller.opens === 1)
  assert.match(String(client.error?.message), /ECONNRESET/)
  assert.deepEqual([server.byteCount, server.closes], [0, 0])
})

test('who only waits learns from a keep-alive probe that the machine was started anew', async () => {
  const { clock, network, client } = await connected(10)
  network.powerOff('b')
  await clock.advance(1_000)
  network.powerOn('b')
  await clock.advance(keepAliveMs - 1_000)
  assert.equal(client.closes, 0)
  await clock.runUntil(() => client.closed)
  assert.match(String(client.error?.message), /ECONNRESET/)
})

test('whatever is done to sockets and nodes, the rules of the port hold and all ends', async () => {
  const step = fc.record({
    what: fc.constantFrom('write', 'end', 'destroy', 'pause', 'resume', 'kill', 'off', 'dial'),
    side: fc.constantFrom('a', 'b'),
    pick: fc.nat(5),
    size: fc.integer({ min: 1, max: 700_000 }),
    afterMs: fc.integer({ min: 0, max: 3 })
  })
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.array(step, { maxLength: 40 }), async (seed, steps) => {
      const clock = new VirtualClock()
      const network = new MemoryNetwork({ clock, random: new SeededRandom(seed) })
      const peers: { readonly side: string; readonly peer: Peer }[] = []
      const start = (side: string) =>
        network.node(side).listen({ host: side, port: 9092 }, socket => {
          const peer = new Peer()
          peer.socket = socket
          peers.push({ side, peer })
          return peer
        })
      await start('a')
      await start('b')
      const bury = (side: string) => {
        for (const one of peers) if (one.side === side) one.peer.dead = true
      }
      for (const { what, side, pick, size, afterMs } of steps) {
        const own = peers.filter(one => one.side === side && !one.peer.dead)
        const socket = own[pick % Math.max(1, own.length)]?.peer.socket
        if (what === 'dial') {
          const peer = new Peer()
          peers.push({ side, peer })
          const other = side === 'a' ? 'b' : 'a'
          peer.socket = network.node(side).connect({ host: other, port: 9092 }, peer)
        } else if (what === 'kill') {
          network.kill(side)
          bury(side)
          await start(side)
        } else if (what === 'off') {
          network.powerOff(side)
          bury(side)
          await clock.advance(size / 1000)
          network.powerOn(side)
          await start(side)
        } else if (what === 'write') socket?.write([Buffer.alloc(size)])
        else if (socket !== undefined) socket[what]()
        await clock.advance(afterMs)
      }
      const living = () => peers.filter(({ peer }) => !peer.dead)
      for (const { peer } of living()) {
        peer.socket?.resume()
        // Finds out about half-open connections; then it is the end for all.
        peer.socket?.write([Buffer.alloc(1)])
        peer.socket?.end()
      }
      await clock.runUntilIdle()
      assert(living().every(({ peer }) => peer.closed))
      assert.equal(clock.pending, 0)
    }),
    { numRuns: 150 }
  )
})
