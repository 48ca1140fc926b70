/** What every implementation of the Net port promises. The suite runs against each. */

import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, test } from 'node:test'
import fc from 'fast-check'
import type { Address, Net, TlsOptions } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { highWaterBytes } from '../../src/net/limits.ts'
import { Peer } from './peer.ts'

export interface World {
  readonly server: Net
  readonly client: Net
  /** What the client dials. */
  readonly host: string
  /** Where the server listens. */
  readonly listenHost: string
  readonly tls?: { readonly server: TlsOptions; readonly client: TlsOptions }
  /** Lets events happen until `condition` holds. */
  until(condition: () => boolean): Promise<void>
  /** Fails when the world still holds on to something. */
  checkNothingLeft(): Promise<void>
}

export function netContract(name: string, makeWorld: () => World): void {
  const world = makeWorld()
  const { until } = world
  const say = (title: string, run: () => Promise<void>) => void test(`${name}: ${title}`, run)
  after(() => world.checkNothingLeft())

  async function doors(): Promise<{
    readonly served: Peer[]
    readonly address: Address
    dial(whenServed?: (peer: Peer) => void): Peer
    pair(): Promise<readonly [client: Peer, server: Peer]>
    close(): Promise<void>
  }> {
    const served: Peer[] = []
    let whenServed: (peer: Peer) => void = () => {}
    const tls = world.tls
    const listener = await world.server.listen(
      { host: world.listenHost, port: 0, tls: tls?.server },
      socket => {
        const peer = new Peer()
        peer.socket = socket
        served.push(peer)
        whenServed(peer)
        return peer
      }
    )
    const address = { host: world.host, port: listener.port, tls: tls?.client }
    const dial = (then: (peer: Peer) => void = () => {}) => {
      whenServed = then
      const peer = new Peer()
      peer.socket = world.client.connect(address, peer)
      return peer
    }
    return {
      served,
      address,
      dial,
      async pair() {
        const before = served.length
        const client = dial()
        await until(() => client.opens === 1 && served.length > before)
        return [client, served[before] as Peer]
      },
      close: () => listener.close()
    }
  }

  say('bytes arrive complete and in order, both ways, however they are written', async () => {
    const there = await doors()
    const writes = fc.array(fc.array(fc.integer({ min: 0, max: 5000 }), { maxLength: 5 }))
    await fc.assert(
      fc.asyncProperty(writes, writes, async (out, back) => {
        const [client, server] = await there.pair()
        const sentOut = writeAll(client, out)
        const sentBack = writeAll(server, back)
        client.its.end()
        await until(() => client.closed && server.closed)
        assert.deepEqual(server.bytes, sentOut)
        assert.deepEqual(client.bytes, sentBack)
        assert.deepEqual([client.error, server.error], [undefined, undefined])
      }),
      { numRuns: 30 }
    )
    await there.close()
  })

  say('a reader that pauses makes the writer wait, with bounded memory', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    const total = 24 * 1024 * 1024
    const part = randomBytes(200_000)
    const sent = createHash('sha1')
    let written = 0
    let mostQueued = 0
    const pump = () => {
      while (written < total) {
        sent.update(part)
        written += part.length
        const goOn = client.its.write([part.subarray(0, 7), part.subarray(7)])
        mostQueued = Math.max(mostQueued, client.its.queuedBytes)
        if (!goOn) return
      }
      client.its.end()
    }
    client.whenDrained = pump
    pump()
    server.its.pause()
    assert(written < total, 'the writer was told to wait')
    assert(client.its.queuedBytes > 0, 'what waits is counted')
    const before = server.byteCount
    await echo(there)
    assert.equal(server.byteCount, before, 'nothing arrives while paused')
    server.its.resume()
    await until(() => server.closed)
    assert.equal(server.byteCount, written)
    const received = createHash('sha1')
    for (const chunk of server.chunks) received.update(chunk)
    assert.equal(received.digest('hex'), sent.digest('hex'))
    assert(client.drains > 0, 'the writer was told to go on')
    assert(mostQueued <= highWaterBytes + part.length, `at most ${mostQueued} bytes were queued`)
    await until(() => client.closed)
    await there.close()
  })

  say('pausing in the middle of what arrives holds back the rest until resume', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    server.whenData = () => server.its.pause()
    client.its.write([randomBytes(600_000)])
    await until(() => server.byteCount > 0)
    const first = server.byteCount
    await echo(there)
    assert.equal(server.byteCount, first)
    server.whenData = () => {}
    server.its.resume()
    await until(() => server.byteCount === 600_000)
    client.its.end()
    await until(() => client.closed && server.closed)
    await there.close()
  })

  say('the answer arrives although the asker ended its side at once', async () => {
    const there = await doors()
    const answer = randomBytes(3 * 1024 * 1024)
    const client = there.dial(server => {
      server.whenData = () => {
        if (server.byteCount === 'ask'.length) server.its.write([answer])
      }
    })
    client.its.write([Buffer.from('ask')])
    client.its.end()
    await until(() => client.closed)
    assert.deepEqual(client.bytes, answer)
    assert.equal(client.opens, 1)
    assert.equal(client.error, undefined)
    await until(() => there.served.every(peer => peer.closed && peer.error === undefined))
    await there.close()
  })

  say(
    'an end from the side that accepted is orderly for both, and later writes do nothing',
    async () => {
      const there = await doors()
      const [client, server] = await there.pair()
      server.its.write([Buffer.from('bye')])
      server.its.end()
      server.its.end()
      assert.equal(server.its.write([Buffer.from('too late')]), true)
      await until(() => client.closed && server.closed)
      assert.equal(client.its.write([Buffer.from('too late')]), true)
      assert.equal(client.its.queuedBytes, 0)
      assert.equal(client.bytes.toString(), 'bye')
      assert.deepEqual([client.error, server.error], [undefined, undefined])
      await there.close()
    }
  )

  say('ending both sides at once closes each once', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    client.its.end()
    server.its.end()
    await until(() => client.closed && server.closed)
    assert.deepEqual([client.error, server.error], [undefined, undefined])
    await there.close()
  })

  say('destroy tells its own side the error given', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    const reason = new PlayheadError('MALFORMED_FRAME', 'nonsense')
    client.its.destroy(reason)
    client.its.destroy(new Error('a second reason'))
    client.its.end()
    assert.equal(client.closes, 0, 'the close is never told in the middle of a call')
    await until(() => client.closed && server.closed)
    assert.equal(client.error, reason)
    await there.close()
  })

  if (world.tls === undefined) {
    say('destroy is no orderly end for the peer', async () => {
      const there = await doors()
      const [client, server] = await there.pair()
      client.its.destroy()
      await until(() => client.closed && server.closed)
      assert.equal(client.error, undefined)
      assert(server.error instanceof PlayheadError)
      assert.equal(server.error.code, 'CONNECTION_LOST')
      assert.match(server.error.message, /ECONNRESET/)
      await there.close()
    })
  }

  say('nothing is told after destroy, even with bytes on their way', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    client.whenData = () => client.its.destroy()
    server.its.write([randomBytes(2_000_000)])
    await until(() => client.closed && server.closed)
    assert.equal(client.chunks.length, 1)
    assert.equal(client.its.write([Buffer.from('x')]), true)
    assert.equal(client.its.queuedBytes, 0)
    await echo(there)
    await there.close()
  })

  say('nobody listening is a close with an error that says where', async () => {
    const there = await doors()
    await there.close()
    const client = there.dial()
    assert.equal(client.closes, 0)
    await until(() => client.closed)
    assert.equal(client.opens, 0)
    assert(client.error instanceof PlayheadError)
    assert.equal(client.error.code, 'CONNECTION_FAILED')
    assert.equal(client.error.retriable, true)
    const { host, port } = there.address
    assert.equal(
      client.error.message,
      `cannot connect to ${host}:${port}: ECONNREFUSED, nobody listens there`
    )
  })

  say('destroy while connecting closes without ever opening', async () => {
    const there = await doors()
    const client = there.dial()
    client.its.write([Buffer.from('x')])
    client.its.destroy()
    await until(() => client.closed)
    await echo(there)
    assert.equal(client.opens, 0)
    await until(() => there.served.every(peer => peer.closed))
    assert(there.served.every(peer => ['', 'hello'].includes(peer.bytes.toString())))
    await there.close()
  })

  say('closing a listener refuses newcomers and keeps what was accepted', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    await there.close()
    await there.close()
    const late = there.dial()
    await until(() => late.closed)
    server.its.write([Buffer.from('still here')])
    await until(() => client.byteCount === 10)
    client.its.end()
    await until(() => client.closed && server.closed)
  })

  say('a port that is taken is an error that says so', async () => {
    const there = await doors()
    const { port } = there.address
    await assert.rejects(
      world.server.listen(
        { host: world.listenHost, port, tls: world.tls?.server },
        () => new Peer()
      ),
      { code: 'INVALID_ARGUMENT', message: /cannot listen at .*: EADDRINUSE, another process/ }
    )
    await there.close()
  })

  say('each side knows its own and the other address', async () => {
    const there = await doors()
    const [client, server] = await there.pair()
    assert.deepEqual(client.its.remote, { host: world.host, port: there.address.port })
    assert.deepEqual(server.its.remote.port, client.its.local.port)
    assert.deepEqual(server.its.local.port, there.address.port)
    client.its.end()
    await until(() => client.closed && server.closed)
    await there.close()
  })

  /** Another connection goes there and back: whatever was under way before has had its time. */
  async function echo(there: Awaited<ReturnType<typeof doors>>): Promise<void> {
    const client = there.dial(server => {
      server.whenData = chunk => server.its.write([Buffer.from(chunk)])
    })
    client.its.write([Buffer.from('hello')])
    await until(() => client.byteCount === 5)
    client.its.end()
    await until(() => client.closed)
  }
}

function writeAll(peer: Peer, writes: readonly (readonly number[])[]): Buffer {
  const sent: Buffer[] = []
  for (const sizes of writes) {
    const buffers = sizes.map(size => randomBytes(size))
    peer.its.write(buffers)
    sent.push(...buffers)
  }
  return Buffer.concat(sent)
}
