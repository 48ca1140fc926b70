/** TLS between our client and our broker, and strangers: each failure is told so that one can mend it; files may change (S9). */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import tls from 'node:tls'
import type { Log, TlsOptions } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { Broker } from '../../src/broker.ts'
import { Playhead } from '../../src/index.ts'
import { authority } from '../net/certificates.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import {
  brokerCert,
  brokerKey,
  earlyCert,
  earlyKey,
  expiredCert,
  expiredKey,
  firstCert,
  firstKey,
  firstKeyEncrypted,
  secondAuthority,
  secondCert,
  secondKey
} from '../net/more-certificates.ts'

const identity = { cert: brokerCert, key: brokerKey }
const trust = { ca: secondAuthority }
const canary = 'canary-passphrase'
const software = { clientSoftwareName: 'test', clientSoftwareVersion: '1' }

interface Tried {
  readonly code: string
  readonly message: string
}

/** What a call comes to, at a broker with these options, by a client with these. */
async function tryCall(
  server: TlsOptions | undefined,
  client: TlsOptions | undefined,
  host = 'localhost'
): Promise<Tried> {
  await using broker = await Broker.start({
    topics: { t: 1 },
    advertisedHost: host,
    log: silentLog,
    ...(server && { tls: server })
  })
  const port = broker.bootstrap[0]?.replace(/^.*:/, '')
  await using kafka = new Playhead({
    bootstrap: [`${host}:${port}`],
    log: silentLog,
    ...(client && { tls: client })
  })
  return await kafka.cluster.topic('t', { timeoutMs: 700 }).then(
    () => ({ code: 'in', message: '' }),
    (error: unknown) => {
      assert(error instanceof PlayheadError)
      return { code: error.code, message: error.message }
    }
  )
}

const failures: readonly (readonly [
  what: string,
  server: TlsOptions | undefined,
  client: TlsOptions | undefined,
  code: string,
  says: RegExp
])[] = [
  [
    'an authority that is not trusted',
    identity,
    { ca: authority },
    'AUTHENTICATION_FAILED',
    /not signed by an authority that is trusted here\. Give that authority as `ca`/
  ],
  ["Node's own authorities", identity, {}, 'AUTHENTICATION_FAILED', /Give that authority as `ca`/],
  [
    'a certificate that has ended',
    { cert: expiredCert, key: expiredKey },
    trust,
    'AUTHENTICATION_FAILED',
    /has expired\. Renew it there/
  ],
  [
    'a certificate that has not begun',
    { cert: earlyCert, key: earlyKey },
    trust,
    'AUTHENTICATION_FAILED',
    /not valid yet\. Look at the clocks/
  ],
  [
    'a certificate of another name',
    { cert: firstCert, key: firstKey },
    trust,
    'AUTHENTICATION_FAILED',
    /for other names than the one dialled: DNS:client-1\. Dial one of them, or set `servername`/
  ],
  [
    'no certificate of ours where one is wanted',
    { ...identity, ...trust },
    trust,
    'AUTHENTICATION_FAILED',
    /wants a certificate of this side.*Give `cert` and `key`/
  ],
  [
    'a certificate of ours by a stranger',
    { ...identity, ca: authority },
    { ...trust, cert: firstCert, key: firstKey },
    'CONNECTION_FAILED',
    /does it take the certificate of this side/
  ],
  [
    'a certificate of ours that has ended',
    { ...identity, ...trust },
    { ...trust, cert: expiredCert, key: expiredKey },
    'CONNECTION_FAILED',
    /does it take the certificate of this side/
  ],
  [
    "a key that is not the certificate's",
    identity,
    { ...trust, cert: firstCert, key: secondKey },
    'INVALID_ARGUMENT',
    /`key` does not belong to `cert`/
  ],
  [
    'a certificate without its key',
    identity,
    { ...trust, cert: firstCert },
    'INVALID_ARGUMENT',
    /`cert` without `key`/
  ],
  [
    'an encrypted key without its passphrase',
    identity,
    { ...trust, cert: firstCert, key: firstKeyEncrypted },
    'INVALID_ARGUMENT',
    /`key` is encrypted, and `passphrase` is missing or not right/
  ],
  [
    'a wrong passphrase',
    identity,
    { ...trust, cert: firstCert, key: firstKeyEncrypted, passphrase: 'canary-wr0ng' },
    'INVALID_ARGUMENT',
    /`key` is encrypted, and `passphrase` is missing or not right/
  ],
  [
    'an authority that is no certificate',
    identity,
    { ca: 'canary' },
    'INVALID_ARGUMENT',
    /`ca` holds no certificate/
  ],
  [
    'a file that is not there',
    identity,
    { ...trust, certFile: '/nowhere/c.pem', keyFile: '/nowhere/k.pem' },
    'INVALID_ARGUMENT',
    /`certFile` \/nowhere\/c\.pem cannot be read: ENOENT/
  ],
  ['TLS where plain text is spoken', undefined, trust, 'CONNECTION_FAILED', /does not speak TLS/],
  [
    'plain text where TLS is spoken',
    identity,
    undefined,
    'CONNECTION_FAILED',
    /is this port for TLS \(`tls`\)\?|This looks like a TLS alert/
  ]
]

for (const [what, server, client, code, says] of failures) {
  test(`TLS: ${what} is told with what to do`, async () => {
    const tried = await tryCall(server, client)
    assert.match(tried.message, says)
    assert.equal(tried.code, code, tried.message)
    assert.match(tried.message, /localhost:\d+/)
    assert.doesNotMatch(tried.message, /canary/)
  })
}

test('mutual TLS lets in who shows a certificate, also by an encrypted key', async () => {
  const mutual = { ...identity, ...trust }
  assert.equal((await tryCall(mutual, { ...trust, cert: firstCert, key: firstKey })).code, 'in')
  const encrypted = { ...trust, cert: firstCert, key: firstKeyEncrypted, passphrase: canary }
  assert.equal((await tryCall(mutual, encrypted)).code, 'in')
  assert.equal(
    (await tryCall(mutual, encrypted, '127.0.0.1')).code,
    'in',
    'an address is a name too'
  )
})

test('a broker with neither SASL nor mutual TLS does not listen beyond loopback unless told', async () => {
  await assert.rejects(Broker.start({ host: '0.0.0.0', tls: identity }), /`sasl` or `tls.ca`/)
  const mutual = { ...identity, ...trust }
  await using broker = await Broker.start({
    host: '0.0.0.0',
    tls: mutual,
    advertisedHost: 'localhost',
    log: silentLog
  })
  assert.match(broker.bootstrap[0] ?? '', /^localhost:/)
})

class Files {
  readonly #folder = mkdtempSync(join(tmpdir(), 'playhead-tls-'))

  write(name: string, content: string): string {
    const path = join(this.#folder, name)
    writeFileSync(path, content)
    return path
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true })
  }
}

/** Hears what is logged as an error. */
function errors(): { readonly said: string[]; readonly log: Log } {
  const said: string[] = []
  return { said, log: { ...silentLog, error: message => said.push(message) } }
}

test("changed files: the client's next connection shows the new certificate; broken ones change nothing and are told once", async () => {
  using files = new Files()
  const shown: string[] = []
  const server = tls.createServer({ ...identity, ...trust, requestCert: true }, socket => {
    shown.push(String(socket.getPeerCertificate().subject.CN))
    socket.on('error', () => {}).destroy()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  const reloads: (string | null)[] = []
  const { said, log } = errors()
  await using kafka = new Playhead({
    bootstrap: [`127.0.0.1:${port}`],
    log,
    reconnectBackoffMs: 1,
    reconnectBackoffMaxMs: 1,
    tls: {
      caFile: files.write('ca.pem', secondAuthority),
      certFile: files.write('cert.pem', firstCert),
      keyFile: files.write('key.pem', firstKey),
      onReload: error => reloads.push(error && error.message)
    }
  })
  /** Connects until the server has seen so many more. */
  const connect = async (count: number) => {
    const until = shown.length + count
    while (shown.length < until) {
      await assert.rejects(
        kafka.cluster.request(ApiVersions, software, { to: 'any', timeoutMs: 100 })
      )
    }
    return shown.at(-1)
  }
  assert.equal(await connect(2), 'client-1')
  files.write('cert.pem', secondCert)
  assert.equal(await connect(3), 'client-1', 'a certificate without its key changes nothing')
  assert.equal(reloads.length, 1)
  assert.match(
    reloads[0] ?? '',
    /cannot be used, those read before stay in use: `key` does not belong/
  )
  assert.deepEqual(said, reloads)
  files.write('key.pem', secondKey)
  assert.equal(await connect(2), 'client-2')
  assert.deepEqual(reloads.slice(1), [null])
  files.write('ca.pem', 'half a certifica')
  assert.equal(await connect(2), 'client-2')
  rmSync(files.write('ca.pem', ''))
  assert.equal(await connect(2), 'client-2')
  assert.match(reloads.at(-1) ?? '', /ca\.pem cannot be read: ENOENT/)
  server.close()
})

test("changed files: the broker's next connection gets the new certificate, without a restart; broken ones change nothing", async () => {
  using files = new Files()
  const reloads: (string | null)[] = []
  const { said, log } = errors()
  const certFile = files.write('cert.pem', firstCert)
  const keyFile = files.write('key.pem', firstKey)
  await using broker = await Broker.start({
    log,
    tls: { certFile, keyFile, onReload: error => reloads.push(error && error.message) }
  })
  const [host, port] = broker.bootstrap[0]?.split(':') ?? []
  const shown = () =>
    new Promise<string>((resolve, reject) => {
      const socket = tls.connect({ host, port: Number(port), rejectUnauthorized: false }, () => {
        resolve(String(socket.getPeerCertificate().subject.CN))
        socket.destroy()
      })
      socket.on('error', reject)
    })
  assert.equal(await shown(), 'client-1')
  files.write('key.pem', secondKey)
  assert.equal(await shown(), 'client-1')
  assert.equal(await shown(), 'client-1')
  assert.equal(said.length, 1)
  assert.match(reloads[0] ?? '', /`key` does not belong to `cert`/)
  files.write('cert.pem', secondCert)
  assert.equal(await shown(), 'client-2')
  files.write('cert.pem', 'nothing')
  assert.equal(await shown(), 'client-2')
  assert.deepEqual(
    reloads.map(error => error === null),
    [false, true, false]
  )
})
