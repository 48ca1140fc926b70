/**
 * Brokers that are after credentials, and everything that is printed when a login fails: no password, token or secret is
 * given to who does not prove himself, and none is seen anywhere (S6, S9, S15).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import type { Log } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { lineLog, silentLog } from '../../src/base/node/log.ts'
import { Secret } from '../../src/base/secret.ts'
import { Broker, type BrokerSaslOptions } from '../../src/broker.ts'
import {
  Playhead,
  type PlayheadOptions,
  type SaslOptions,
  clientCredentials
} from '../../src/index.ts'
import type { Metadata } from '../../src/protocol/api/metadata.ts'
import { SaslAuthenticate } from '../../src/protocol/api/sasl-authenticate.ts'
import { SaslHandshake } from '../../src/protocol/api/sasl-handshake.ts'
import { decodeRequest } from '../../src/protocol/frame.ts'
import type { ResponseWritten } from '../../src/protocol/schema.ts'
import { otherAuthority, serverCert, serverKey } from '../net/certificates.ts'
import {
  brokerCert,
  brokerKey,
  firstCert,
  firstKey,
  secondAuthority
} from '../net/more-certificates.ts'
import { HostileBroker, type HostileOptions } from './hostile.ts'

const canary = 'canary-pa55word'
const canaries = /canary|Y2FuYXJ5|63616e617279/i

const mechanisms = [
  { mechanism: 'PLAIN', username: 'alice', password: canary, allowPlaintext: true },
  { mechanism: 'SCRAM-SHA-256', username: 'alice', password: canary },
  { mechanism: 'SCRAM-SHA-512', username: 'alice', password: new Secret(canary) },
  { mechanism: 'OAUTHBEARER', token: () => ({ token: canary }), allowPlaintext: true }
] as const satisfies readonly SaslOptions[]

/** Takes every mechanism, and answers what it was told in the words that `reply` makes of it. */
function rogue(
  reply: (said: string) => {
    readonly errorCode: number
    readonly errorMessage: string | null
    readonly authBytes: Buffer
  }
): HostileOptions {
  return {
    onRequest: ({ api, answer, frame, start }) => {
      if (api === 'SaslHandshake') answer(SaslHandshake, { errorCode: 0, mechanisms: ['PLAIN'] })
      else if (api === 'SaslAuthenticate') {
        const { authBytes } = decodeRequest(SaslAuthenticate, start.apiVersion, frame)
        answer(SaslAuthenticate, { ...reply(authBytes.toString('latin1')), sessionLifetimeMs: 0 })
      } else return false
      return true
    }
  }
}

/** What everything that a person might see says, when a client, its producer and its consumer fail to come in. */
async function everythingSeen(
  bootstrap: readonly string[],
  options: Partial<PlayheadOptions>
): Promise<string> {
  const seen: string[] = []
  const log = lineLog({ level: 'debug', write: line => void seen.push(line) })
  const raw: Log = {
    debug: log.debug,
    info: log.info,
    warn: log.warn,
    error: (message, fields) => seen.push(inspect(fields, { depth: 20 }), message)
  }
  const kafka = new Playhead({ bootstrap, log: raw, requestTimeoutMs: 2_000, ...options })
  const see = (thing: unknown) => {
    seen.push(
      inspect(thing, { depth: 20, showHidden: true }),
      String(thing),
      JSON.stringify(thing) ?? ''
    )
    for (let at = thing; at instanceof Error; at = at.cause) seen.push(at.message, at.stack ?? '')
  }
  const producer = kafka.producer()
  const consumer = kafka.consumer({ group: 'g', topics: ['t'] })
  consumer.on('error', see)
  consumer.on('stalled', see)
  const outcomes = await Promise.allSettled([
    kafka.cluster.topic('t'),
    producer.send('t', { value: 'v' }),
    consumer.poll({ timeoutMs: 2_000 }),
    kafka.admin().offsets('g')
  ])
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') see(outcome.reason)
  }
  assert(
    outcomes.some(({ status }) => status === 'rejected'),
    'nobody came in'
  )
  for (const thing of [kafka, producer, consumer, kafka.cluster, kafka.cluster.metadata]) see(thing)
  await consumer.close().catch(see)
  await producer.close().catch(see)
  await kafka.close()
  return seen.join('\n')
}

for (const sasl of mechanisms) {
  test(`${sasl.mechanism}: whatever goes wrong with a login, nothing that is printed holds the secret`, async () => {
    const printed: string[] = []
    const say = (message: string, fields?: object) =>
      printed.push(`${message} ${inspect(fields, { depth: 20 })}`)
    const log: Log = { debug: say, info: say, warn: say, error: say }
    const who: BrokerSaslOptions[] = [
      { users: { alice: 'another' }, oauthbearer: token => Promise.reject(new Error(token)) },
      {
        users: { alice: canary },
        mechanisms: [sasl.mechanism === 'SCRAM-SHA-256' ? 'PLAIN' : 'SCRAM-SHA-256']
      }
    ]
    for (const offered of who) {
      await using broker = await Broker.start({ topics: { t: 1 }, sasl: offered, log })
      printed.push(await everythingSeen(broker.bootstrap, { sasl }))
      printed.push(inspect(broker, { depth: 20, showHidden: true }))
    }
    for (const options of [
      rogue(said => ({
        errorCode: 58,
        errorMessage: `wrong: ${said}`,
        authBytes: Buffer.alloc(0)
      })),
      rogue(said => ({
        errorCode: 0,
        errorMessage: null,
        authBytes: Buffer.from(`e=wrong ${said}`)
      })),
      rogue(() => ({ errorCode: -1, errorMessage: null, authBytes: Buffer.alloc(0) }))
    ]) {
      await using hostile = await HostileBroker.start(options)
      printed.push(await everythingSeen([hostile.address], { sasl }))
    }
    const all = printed.join('\n')
    assert(all.length > 1_000, 'there was something to search')
    assert.doesNotMatch(all, canaries)
  })
}

test('the secret for a token endpoint is not printed either, whatever the endpoint does', async () => {
  const token = clientCredentials({
    tokenEndpoint: 'http://127.0.0.1:9/',
    clientId: 'id',
    clientSecret: canary
  })
  await using broker = await Broker.start({
    sasl: { oauthbearer: () => ({ principal: 'a' }) },
    log: silentLog
  })
  const seen = await everythingSeen(broker.bootstrap, {
    sasl: { mechanism: 'OAUTHBEARER', token, allowPlaintext: true }
  })
  assert.match(seen, /the token endpoint http:\/\/127\.0\.0\.1:9\/ gave no token/)
  assert.doesNotMatch(seen, canaries)
})

test('options are printed without their secrets, when those are Secrets', () => {
  const sasl: SaslOptions = { mechanism: 'PLAIN', username: 'alice', password: new Secret(canary) }
  assert.doesNotMatch(inspect(sasl) + JSON.stringify(sasl) + String(sasl.password), canaries)
})

test('a rogue that metadata names gets no credential: not by SCRAM, and no other mechanism instead', async () => {
  let challenge = ''
  await using hostile = await HostileBroker.start({
    onRequest: ({ api, answer }) => {
      if (api === 'SaslHandshake')
        answer(SaslHandshake, { errorCode: challenge === '' ? 33 : 0, mechanisms: ['PLAIN'] })
      else if (api === 'SaslAuthenticate') {
        const nonce =
          /r=([^,]+)/.exec(
            Buffer.concat(hostile.heard).toString('latin1').split('n,,n=').at(-1) ?? ''
          )?.[1] ?? ''
        const authBytes = Buffer.from(challenge.replace('NONCE', nonce))
        answer(SaslAuthenticate, {
          errorCode: 0,
          errorMessage: null,
          authBytes,
          sessionLifetimeMs: 0
        })
      } else return false
      return true
    }
  })
  await using broker = await Broker.start({
    topics: { t: 1 },
    sasl: { users: { alice: canary } },
    log: silentLog
  })
  broker.control.on('Metadata', ({ body }) => ({
    answer: hijacked(
      hostile.port,
      (body['topics'] as readonly { name: string }[] | null)?.map(({ name }) => name) ?? []
    )
  }))
  const attempts = [
    '',
    'r=NONCEx,s=c2FsdA==,i=4096',
    'r=NONCEx,s=c2FsdA==,i=1',
    'r=NONCEx,s=c2FsdA==,i=2147483647'
  ]
  for (challenge of attempts) {
    const sasl = { mechanism: 'SCRAM-SHA-256', username: 'alice', password: canary } as const
    await using kafka = new Playhead({
      bootstrap: broker.bootstrap,
      sasl,
      log: silentLog,
      requestTimeoutMs: 3_000
    })
    const sent = kafka.producer({ deliveryTimeoutMs: 3_000 }).send('t', { value: 'canary' })
    await assert.rejects(sent, (error: PlayheadError) => {
      assert(error instanceof PlayheadError)
      return true
    })
  }
  const heard = Buffer.concat(hostile.heard).toString('latin1')
  assert(hostile.connections >= attempts.length, 'the rogue was dialled')
  assert.match(heard, /SCRAM-SHA-256/)
  assert.doesNotMatch(heard, canaries)
  assert.doesNotMatch(heard, /PLAIN/)
})

for (const [what, tls] of [
  ['a certificate of another authority', { cert: serverCert, key: serverKey }],
  ['a good certificate of another name', { cert: firstCert, key: firstKey }]
] as const) {
  test(`over TLS a rogue with ${what} hears nothing at all`, async () => {
    await using hostile = await HostileBroker.start({ tls })
    const sasl = { users: { alice: canary } }
    await using broker = await Broker.start({
      topics: { t: 1 },
      tls: { cert: brokerCert, key: brokerKey },
      sasl,
      log: silentLog
    })
    broker.control.on('Metadata', () => ({ answer: hijacked(hostile.port, ['t']) }))
    await using kafka = new Playhead({
      bootstrap: broker.bootstrap,
      tls: { ca: [secondAuthority, otherAuthority] },
      sasl: { mechanism: 'PLAIN', username: 'alice', password: canary },
      log: silentLog,
      requestTimeoutMs: 2_000
    })
    const sent = kafka.producer({ deliveryTimeoutMs: 2_000 }).send('t', { value: 'canary' })
    await assert.rejects(sent, { code: 'AUTHENTICATION_FAILED' })
    assert.deepEqual(hostile.heard, [])
  })
}

/** Metadata that says: broker 1 is over here now. */
function hijacked(port: number, names: readonly string[]): ResponseWritten<typeof Metadata> {
  const partition = {
    errorCode: 0,
    partitionIndex: 0,
    leaderId: 1,
    leaderEpoch: 9,
    replicaNodes: [1],
    isrNodes: [1],
    offlineReplicas: []
  }
  const topics = names.map(name => ({
    errorCode: 0,
    name,
    topicId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    isInternal: false,
    partitions: [partition]
  }))
  const brokers = [{ nodeId: 1, host: '127.0.0.1', port, rack: null }]
  return {
    throttleTimeMs: 0,
    brokers,
    clusterId: 'c',
    controllerId: 1,
    topics,
    errorCode: 0
  }
}
