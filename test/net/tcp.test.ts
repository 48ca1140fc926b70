/** TCP and TLS against the contract of the Net port, then what only they have. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Log, LogFields } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { tcpNet } from '../../src/net/tcp.ts'
import { authority, otherAuthority, serverCert, serverKey } from './certificates.ts'
import { netContract, type World } from './contract.ts'
import { Peer } from './peer.ts'

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within 10 s: ${condition}`)
    await new Promise(resolve => setImmediate(resolve))
  }
}

function resources(): string[] {
  return process
    .getActiveResourcesInfo()
    .filter(type => /TCP|TLS|Timeout/.test(type))
    .sort()
}

function world(tls?: World['tls']): World {
  const net = tcpNet({ log: silentLog })
  const before = resources()
  return {
    server: net,
    client: net,
    host: tls ? 'localhost' : '127.0.0.1',
    listenHost: '127.0.0.1',
    ...(tls ? { tls } : {}),
    until,
    checkNothingLeft: () => until(() => String(resources()) === String(before))
  }
}

const server = { cert: serverCert, key: serverKey }

netContract('tcp', () => world())
netContract('tls', () => world({ server, client: { ca: authority } }))

/** Dials a TLS echo server of `serverTls`; resolves with the client when it has an answer or is closed. */
async function greet(
  serverTls: object,
  clientTls: object,
  { host = 'localhost', log = silentLog } = {}
): Promise<Peer> {
  const net = tcpNet({ log })
  const listener = await net.listen({ host: '127.0.0.1', port: 0, tls: serverTls }, socket => {
    const peer = new Peer()
    peer.socket = socket
    peer.whenData = chunk => socket.write([Buffer.from(chunk)])
    return peer
  })
  const client = new Peer()
  client.socket = net.connect({ host, port: listener.port, tls: clientTls }, client)
  client.socket.write([Buffer.from('secret')])
  await until(() => client.byteCount === 6 || client.closed)
  client.socket.end()
  await until(() => client.closed)
  await listener.close()
  return client
}

function refused(peer: Peer, message: RegExp): void {
  assert.equal(peer.opens, 0)
  assert(peer.error instanceof PlayheadError)
  assert.equal(peer.error.code, 'AUTHENTICATION_FAILED')
  assert.equal(peer.error.retriable, false)
  assert.match(peer.error.message, message)
}

test('a certificate of an authority that is not ours is refused', async () => {
  refused(await greet(server, { ca: otherAuthority }), /^TLS with localhost:\d+ refused: .*VERIFY/)
  refused(await greet(server, {}), /VERIFY|SELF_SIGNED/)
})

test('a certificate for another name is refused, unless servername asks for that name', async () => {
  refused(await greet(server, { ca: authority, servername: 'elsewhere.test' }), /ALTNAME/)
  refused(await greet(server, { ca: authority }, { host: '127.0.0.1' }), /ALTNAME/)
  const named = await greet(
    server,
    { ca: authority, servername: 'localhost' },
    { host: '127.0.0.1' }
  )
  assert.equal(named.bytes.toString(), 'secret')
})

test('the environment cannot switch verification off', async () => {
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
  try {
    refused(await greet(server, { ca: otherAuthority }), /VERIFY/)
  } finally {
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before
  }
})

test('nothing that was written reaches a server whose certificate is refused', async () => {
  const net = tcpNet({ log: silentLog })
  const served: Peer[] = []
  const listener = await net.listen({ host: '127.0.0.1', port: 0, tls: server }, socket => {
    const peer = new Peer()
    peer.socket = socket
    served.push(peer)
    return peer
  })
  for (const end of [false, true]) {
    const client = new Peer()
    const address = { host: 'localhost', port: listener.port, tls: { ca: otherAuthority } }
    client.socket = net.connect(address, client)
    client.socket.write([Buffer.from('password')])
    if (end) client.socket.end()
    await until(() => client.closed)
    await until(() => served.every(peer => peer.closed))
  }
  assert.deepEqual(
    served.map(peer => peer.byteCount).filter(count => count > 0),
    []
  )
  await listener.close()
})

test('insecure connects to anyone and says so at each start', async () => {
  const warnings: [string, LogFields | undefined][] = []
  const log: Log = { ...silentLog, warn: (message, fields) => warnings.push([message, fields]) }
  for (let i = 1; i <= 2; i++) {
    const client = await greet(server, { insecure: true }, { log })
    assert.equal(client.bytes.toString(), 'secret')
    assert.equal(warnings.length, i)
  }
  assert.match(String(warnings[0]?.[0]), /TLS without verification/)
  assert.equal(warnings[0]?.[1]?.['host'], 'localhost')
})

test('a listener with authorities wants a certificate of its clients', async () => {
  const mutual = { ...server, ca: authority }
  const without = await greet(mutual, { ca: authority })
  assert(without.error instanceof PlayheadError)
  assert.equal(without.error.code, 'AUTHENTICATION_FAILED')
  assert.equal(without.byteCount, 0)
  const client = await greet(mutual, { ca: authority, cert: serverCert, key: serverKey })
  assert.equal(client.bytes.toString(), 'secret')
})

test('options and ports that make no sense close the socket, and never throw', async () => {
  const net = tcpNet({ log: silentLog })
  const cases = [
    [{ host: '127.0.0.1', port: 2 ** 31 - 1 }, 'CONNECTION_FAILED', /2147483647: no port is/],
    [{ host: '127.0.0.1', port: 1, tls: { cert: 'no pem' } }, 'INVALID_ARGUMENT', /TLS options/]
  ] as const
  for (const [address, code, message] of cases) {
    const client = new Peer()
    client.socket = net.connect(address, client)
    client.socket.write([Buffer.from('x')])
    await until(() => client.closed)
    assert(client.error instanceof PlayheadError)
    assert.equal(client.error.code, code)
    assert.match(client.error.message, message)
  }
  await assert.rejects(
    net.listen({ host: '127.0.0.1', port: 0, tls: { key: 'no pem' } }, () => new Peer()),
    { code: 'INVALID_ARGUMENT' }
  )
})

test('TLS to a port without it fails with a hint', async () => {
  const net = tcpNet({ log: silentLog })
  const listener = await net.listen({ host: '127.0.0.1', port: 0 }, socket => {
    const peer = new Peer()
    peer.whenData = () => socket.destroy()
    return peer
  })
  const client = new Peer()
  client.socket = net.connect({ host: 'localhost', port: listener.port, tls: {} }, client)
  await until(() => client.closed)
  assert.match(String(client.error?.message), /the peer does not speak TLS here/)
  await listener.close()
})

test('all that is written in one turn is one piece for the network', async () => {
  const net = tcpNet({ log: silentLog })
  const server = new Peer()
  const listener = await net.listen({ host: '127.0.0.1', port: 0 }, () => server)
  const client = new Peer()
  const socket = net.connect({ host: '127.0.0.1', port: listener.port }, client)
  await until(() => client.opens === 1)
  for (let i = 0; i < 100; i++) socket.write([Buffer.from('ab'), Buffer.from('cd')])
  await Promise.resolve()
  socket.write([Buffer.from('e')])
  await until(() => server.byteCount === 401)
  assert.equal(server.chunks.length, 1)
  socket.end()
  await until(() => client.closed && server.closed)
  await listener.close()
})

test('all dialled sockets read into one buffer, and none sees what another was sent', async () => {
  const net = tcpNet({ log: silentLog })
  let accepted = 0
  const listener = await net.listen({ host: '127.0.0.1', port: 0 }, socket => {
    const mark = ++accepted
    for (let i = 0; i < 20; i++) socket.write([Buffer.alloc(100_000, mark)])
    socket.end()
    return new Peer()
  })
  const memory = new Set<ArrayBufferLike>()
  const clients = Array.from({ length: 8 }, () => {
    const client = new Peer()
    client.whenData = chunk => memory.add(chunk.buffer)
    client.socket = net.connect({ host: '127.0.0.1', port: listener.port }, client)
    return client
  })
  await until(() => clients.every(client => client.closed))
  for (const { bytes } of clients) assert.deepEqual(bytes, Buffer.alloc(2_000_000, bytes[0]))
  assert.equal(new Set(clients.map(client => client.bytes[0])).size, 8)
  assert.equal(memory.size, 1)
  await listener.close()
})
