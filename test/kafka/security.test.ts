/**
 * TLS and SASL against a real Kafka, and Kafka's own clients against our broker: certificates that are checked on both
 * sides and change while it runs, every mechanism over TLS, tokens that end, and what is told when one does not get in.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { inspect } from 'node:util'
import { silentLog } from '../../src/base/node/log.ts'
import { Broker } from '../../src/broker.ts'
import {
  Playhead,
  type PlayheadOptions,
  type TlsOptions,
  clientCredentials
} from '../../src/index.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { authority } from '../net/certificates.ts'
import {
  brokerCert,
  brokerKey,
  expiredCert,
  expiredKey,
  firstCert,
  firstKey,
  secondAuthority,
  secondCert,
  secondKey
} from '../net/more-certificates.ts'
import { type OwnCluster, kafka, kafkaTool, kafkaToolUntil } from './cluster.ts'

const folder = mkdtempSync(join(tmpdir(), 'playhead-kafka-tls-'))
const trust = { ca: secondAuthority }
const first = { ...trust, cert: firstCert, key: firstKey }
const alice = { username: 'alice', password: 'alice-secret' }
let own: OwnCluster

function file(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

before(async () => {
  file('keystore.pem', brokerKey + brokerCert)
  file('truststore.pem', secondAuthority)
  own = await kafka.startOwn({ sasl: true, tls: folder })
})

after(async () => {
  await own.down()
  rmSync(folder, { recursive: true })
})

function client(options: Partial<PlayheadOptions>): Playhead {
  return new Playhead({
    bootstrap: own.tlsBootstrap,
    log: silentLog,
    requestTimeoutMs: 3_000,
    ...options
  })
}

/** A record there and back. */
async function roundTrip(options: Partial<PlayheadOptions>): Promise<void> {
  await using playhead = client({ ...options, requestTimeoutMs: 20_000 })
  const topic = kafka.uniqueName('secure')
  await playhead.admin().createTopics([{ topic, partitions: 1 }])
  await playhead.producer().send(topic, { value: 'hello' })
  await using consumer = playhead.consumer({ assign: [{ topic, partition: 0, offset: 0 }] })
  const [record] = await consumer.poll({ timeoutMs: 10_000 })
  assert.equal(String(record?.value), 'hello')
}

test('mutual TLS: a record there and back; who shows nothing, a stranger, or what has ended is told what to do', async () => {
  await roundTrip({ tls: first })
  const wrong: readonly (readonly [TlsOptions, string, RegExp])[] = [
    [
      trust,
      'AUTHENTICATION_FAILED',
      /wants a certificate of this side, or does not take the one it got\. Give `cert` and `key`/
    ],
    [
      { ...first, ca: authority },
      'AUTHENTICATION_FAILED',
      /not signed by an authority that is trusted here/
    ],
    [{ ...trust, cert: expiredCert, key: expiredKey }, 'AUTHENTICATION_FAILED', /certificate/],
    [
      { ...first, servername: 'elsewhere.test' },
      'AUTHENTICATION_FAILED',
      /for other names than the one dialled: DNS:localhost, IP Address:127\.0\.0\.1/
    ]
  ]
  for (const [tls, code, says] of wrong) {
    await using playhead = client({ tls })
    await assert.rejects(playhead.cluster.refresh(), (error: Error & { code: string }) => {
      assert.equal(error.code, code, error.message)
      assert.match(error.message, says)
      return true
    })
  }
})

test('plain text where TLS is spoken, TLS where plain text is, and no SASL where it is wanted, are told apart', async () => {
  const wrong: readonly (readonly [Partial<PlayheadOptions>, RegExp])[] = [
    [{}, /is this port for TLS \(`tls`\)|looks like a TLS alert: does this port want TLS/],
    [{ bootstrap: own.bootstrap, tls: first }, /does not speak TLS here/],
    [{ bootstrap: own.saslBootstrap }, /does it want to know who you are \(`sasl`\)/]
  ]
  for (const [options, says] of wrong) {
    await using playhead = client({ ...options, requestTimeoutMs: 1_500 })
    await assert.rejects(playhead.cluster.refresh(), says)
  }
})

for (const mechanism of ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const) {
  test(`${mechanism} over TLS: a record there and back`, async () => {
    await roundTrip({ bootstrap: own.saslTlsBootstrap, tls: trust, sasl: { mechanism, ...alice } })
  })
}

test('certificates in files change while it runs: new connections show the new one, a broken one changes nothing', async () => {
  const errors: (string | null)[] = []
  const tls = {
    caFile: file('ca.pem', secondAuthority),
    certFile: file('cert.pem', firstCert),
    keyFile: file('key.pem', firstKey),
    onReload: (error: Error | null) => errors.push(error && error.message)
  }
  /** On a connection of its own; what was read of the files belongs to the options, not to a client. */
  const connect = async () => {
    await using playhead = client({ tls })
    await playhead.cluster.refresh()
  }
  await connect()
  file('cert.pem', 'half a certifica')
  await connect()
  file('cert.pem', secondCert)
  file('key.pem', secondKey)
  await connect()
  assert.equal(errors.length, 2)
  assert.match(errors[0] ?? '', /those read before stay in use/)
  assert.equal(errors[1], null)
})

test('OAUTHBEARER by client credentials: in, renewed in place when the token ends, and refused in words', async () => {
  const lifeSeconds = 5
  let given = 0
  const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const server = http.createServer((_, response) => {
    given++
    const now = Math.ceil(Date.now() / 1000)
    const claims = { sub: 'alice', iat: now - 1, exp: now + lifeSeconds }
    const access_token = `${base64({ alg: 'none' })}.${base64(claims)}.`
    response.end(JSON.stringify({ access_token, expires_in: lifeSeconds, token_type: 'bearer' }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const token = clientCredentials({
    tokenEndpoint: `http://127.0.0.1:${port}/`,
    clientId: 'a',
    clientSecret: 'b'
  })
  const options = { bootstrap: own.saslTlsBootstrap, tls: trust }
  try {
    await using playhead = client({ ...options, sasl: { mechanism: 'OAUTHBEARER', token } })
    const connections = new Set<number>()
    const until = performance.now() + 1.5 * lifeSeconds * 1_000
    while (performance.now() < until) {
      const { connection } = await playhead.cluster.send(ListGroups, {}, { to: 'any' }).response
      connections.add(connection)
    }
    assert(given >= 2, `${given} tokens`)
    assert(
      connections.size <= 2,
      'the connection that was there first, and that to the broker by its id'
    )
    const forged = {
      mechanism: 'OAUTHBEARER',
      token: () => ({ token: 'canary-not-a-token' })
    } as const
    await using stranger = client({ ...options, sasl: forged })
    await assert.rejects(stranger.cluster.refresh(), (error: Error) => {
      assert.match(error.message, /OAUTHBEARER/)
      assert.doesNotMatch(error.message, /canary/)
      return true
    })
  } finally {
    server.close()
  }
})

/** A client's configuration for a broker with TLS. */
function config(mechanism: string, password: string): string {
  const module = mechanism === 'PLAIN' ? 'plain.PlainLoginModule' : 'scram.ScramLoginModule'
  const text = `security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location=${join(folder, 'truststore.pem')}
sasl.mechanism=${mechanism}
sasl.jaas.config=org.apache.kafka.common.security.${module} required username="alice" password="${password}";
`
  return file(`${mechanism}.properties`, text)
}

test("Kafka's own clients get into our broker by PLAIN over TLS, and not by SCRAM with a wrong password", async () => {
  await using broker = await startAsking({})
  const list = (mechanism: string, password: string) =>
    kafkaTool(
      'topics',
      '--bootstrap-server',
      broker.bootstrap.join(','),
      '--command-config',
      config(mechanism, password),
      '--list'
    )
  const [plain, wrong] = await Promise.all([
    list('PLAIN', 'alice-secret'),
    list('SCRAM-SHA-512', 'wrong').catch((error: { stdout: string }) => error.stdout)
  ])
  assert.match(plain, /orders/)
  assert.match(wrong, /invalid credentials with SASL mechanism SCRAM-SHA-512/)
})

test("Kafka's own producer gets in by SCRAM, and renews its sessions before they end", async () => {
  const warnings: string[] = []
  const log = {
    ...silentLog,
    warn: (message: string, fields?: object) => void warnings.push(`${message} ${inspect(fields)}`)
  }
  await using broker = await startAsking({ sessionLifetimeMs: 3_000 }, log)
  const renewed = new AbortController()
  let handshakes = 0
  broker.control.on('SaslHandshake', () => {
    // Two are of the connections that it opens.
    if (++handshakes === 4) renewed.abort()
  })
  const printed = await kafkaToolUntil(
    renewed.signal,
    'verifiable-producer',
    '--bootstrap-server',
    broker.bootstrap.join(','),
    '--producer.config',
    config('SCRAM-SHA-512', 'alice-secret'),
    '--topic',
    'orders',
    '--throughput',
    '100'
  )
  assert.match(printed, /producer_send_success/)
  assert.doesNotMatch(printed, /producer_send_error/)
  assert.deepEqual(warnings, [], 'no session had ended when something was asked')
})

function startAsking(
  sasl: { readonly sessionLifetimeMs?: number },
  log = silentLog
): Promise<Broker> {
  return Broker.start({
    topics: { orders: 1 },
    log,
    tls: { cert: brokerCert, key: brokerKey },
    sasl: { users: { alice: 'alice-secret' }, ...sasl }
  })
}
