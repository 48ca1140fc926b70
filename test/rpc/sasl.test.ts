/** Who we are is proved, and to nobody who does not prove himself; no secret is seen anywhere (S6, S7, S15). */
import assert from 'node:assert/strict'
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto'
import { test } from 'node:test'
import { inspect } from 'node:util'
import type { Env } from '../../src/base/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { Secret } from '../../src/base/secret.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { SaslAuthenticate } from '../../src/protocol/api/sasl-authenticate.ts'
import { SaslHandshake } from '../../src/protocol/api/sasl-handshake.ts'
import { type SaslOptions, saslFrom } from '../../src/rpc/sasl/sasl.ts'
import { type FakeBroker, World } from './fake-broker.ts'

const canary = 'canary-pa55word'
const beat = { groupId: 'g', generationId: 1, memberId: 'm' }

/** The exchange of RFC 7677, section 3. */
const rfc7677 = {
  nonce: 'rOprNGfwEbeRWgbNEkqO',
  clientFirst: 'n,,n=user,r=rOprNGfwEbeRWgbNEkqO',
  serverFirst:
    'r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096',
  clientFinal:
    'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=',
  serverFinal: 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4='
}

function withNonce(nonce: string): Env {
  const env = new World().env()
  return { ...env, cpu: { ...env.cpu, randomBytes: () => Buffer.from(nonce, 'base64') } }
}

/** Runs SCRAM of RFC 7677's user against a broker that says these things. */
async function scramAgainst(...answers: readonly string[]): Promise<string[]> {
  const said: string[] = []
  const sasl = saslFrom({ mechanism: 'SCRAM-SHA-256', username: 'user', password: 'pencil' }, false)
  await sasl.authenticate(
    withNonce(rfc7677.nonce),
    async bytes => {
      said.push(bytes.toString())
      return Buffer.from(answers[said.length - 1] ?? '')
    },
    { host: 'b', port: 9092, encrypted: false }
  )
  return said
}

test('SCRAM-SHA-256 says what RFC 7677 says', async () => {
  const said = await scramAgainst(rfc7677.serverFirst, rfc7677.serverFinal)
  assert.deepEqual(said, [rfc7677.clientFirst, rfc7677.clientFinal])
})

const lies: readonly (readonly [what: string, says: RegExp, first: string, final?: string])[] = [
  ['a nonce that is not ours', /nonce/, rfc7677.serverFirst.replace('r=r', 'r=s')],
  ['a nonce that adds nothing', /nonce/, `r=${rfc7677.nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`],
  ['too few iterations', /4095 iterations/, rfc7677.serverFirst.replace('4096', '4095')],
  ['2^31 iterations', /2147483648 iterations/, rfc7677.serverFirst.replace('4096', '2147483648')],
  ['a mandatory extension', /makes no sense/, `m=x,${rfc7677.serverFirst}`],
  ['nothing', /makes no sense/, ''],
  ['an error', /makes no sense: unknown-user/, 'e=unknown-user'],
  [
    'a signature of somebody who does not know the password',
    /does not know the password/,
    rfc7677.serverFirst,
    'v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4='
  ],
  ['a signature cut short', /does not know/, rfc7677.serverFirst, 'v=6rriTRBi23WpRR/wtup+mA=='],
  ['no signature', /makes no sense/, rfc7677.serverFirst, 'x=1']
]

for (const [what, says, first, final] of lies) {
  test(`SCRAM refuses a broker that answers ${what}`, async () => {
    await assert.rejects(scramAgainst(first, final ?? rfc7677.serverFinal), error => {
      assert(error instanceof PlayheadError)
      assert.equal(error.code, 'AUTHENTICATION_FAILED')
      assert.match(error.message, says)
      return true
    })
  })
}

/** A broker's half of SCRAM, by node's own crypto. */
function scramBroker(broker: FakeBroker, algorithm: 'sha256' | 'sha512', password: string): void {
  const salt = Buffer.from('a salt of this test')
  let transcript = ''
  broker.on(SaslHandshake, () => ({ errorCode: 0, mechanisms: [] }))
  broker.on(SaslAuthenticate, ({ body: { authBytes } }) => {
    const text = authBytes.toString()
    const answer = (said: string) => ({
      errorCode: 0,
      errorMessage: null,
      authBytes: Buffer.from(said)
    })
    if (text.startsWith('n,,')) {
      const nonce = text.slice(text.indexOf(',r=') + 3)
      const first = `r=${nonce}broker,s=${salt.toString('base64')},i=5000`
      transcript = `${text.slice(3)},${first}`
      return answer(first)
    }
    const [, final = '', proof = ''] = /^(.*),p=(.*)$/.exec(text) ?? []
    const length = algorithm === 'sha256' ? 32 : 64
    const salted = pbkdf2Sync(password, salt, 5000, length, algorithm)
    const hmac = (key: Buffer, data: string) => createHmac(algorithm, key).update(data).digest()
    const clientKey = hmac(salted, 'Client Key')
    const storedKey = createHash(algorithm).update(clientKey).digest()
    const signature = hmac(storedKey, `${transcript},${final}`)
    const right = Buffer.from(clientKey.map((byte, i) => byte ^ (signature[i] ?? 0)))
    if (!right.equals(Buffer.from(proof, 'base64'))) {
      return { errorCode: 58, errorMessage: 'invalid credentials', authBytes: Buffer.alloc(0) }
    }
    const serverSignature = hmac(hmac(salted, 'Server Key'), `${transcript},${final}`)
    return answer(`v=${serverSignature.toString('base64')}`)
  })
}

/** Everything that a person might get to see of a failed or good run. */
async function run(
  sasl: SaslOptions,
  prepare: (broker: FakeBroker) => void
): Promise<{ readonly outcome: string; readonly seen: string; readonly broker: FakeBroker }> {
  const world = new World()
  const broker = await world.start()
  broker.on(Heartbeat, () => ({ errorCode: 0 }))
  prepare(broker)
  return await world.play(async () => {
    const cluster = world.cluster({ sasl, requestTimeoutMs: 5_000 })
    const outcome: unknown = await cluster.request(Heartbeat, beat, { to: { node: 0 } }).then(
      () => 'ok',
      (error: unknown) => error
    )
    const seen = [
      inspect(cluster, { depth: 20, showHidden: true }),
      inspect(outcome, { depth: 20 }),
      JSON.stringify(outcome),
      ...world.logged
    ].join('\n')
    await cluster.close()
    await broker.die()
    return {
      outcome: outcome instanceof PlayheadError ? outcome.code : String(outcome),
      seen,
      broker
    }
  })
}

for (const [mechanism, algorithm] of [
  ['SCRAM-SHA-256', 'sha256'],
  ['SCRAM-SHA-512', 'sha512']
] as const) {
  test(`${mechanism} is accepted with the right password, and refused with another`, async () => {
    const good = await run({ mechanism, username: 'a=l,ice', password: canary }, broker =>
      scramBroker(broker, algorithm, canary)
    )
    assert.equal(good.outcome, 'ok')
    const [first] = good.broker.requests(SaslAuthenticate)
    assert.match(first?.body.authBytes.toString() ?? '', /^n,,n=a=3Dl=2Cice,r=/)
    const bad = await run({ mechanism, username: 'alice', password: canary }, broker =>
      scramBroker(broker, algorithm, 'another')
    )
    assert.equal(bad.outcome, 'AUTHENTICATION_FAILED')
    for (const { seen } of [good, bad]) assert(!seen.includes(canary), 'no secret is seen')
  })
}

test('PLAIN sends name and password; the refusal says why, and never the secret', async () => {
  const sasl = { mechanism: 'PLAIN', username: 'alice', password: canary } as const
  const { outcome, seen, broker } = await run({ ...sasl, allowPlaintext: true }, b => {
    b.on(SaslHandshake, () => ({ errorCode: 0, mechanisms: [] }))
    b.on(SaslAuthenticate, () => ({
      errorCode: 58,
      errorMessage: 'Authentication failed: no such user\u001b[31m',
      authBytes: Buffer.alloc(0)
    }))
  })
  assert.equal(outcome, 'AUTHENTICATION_FAILED')
  assert.match(seen, /refused SASL PLAIN: Authentication failed: no such user\\x1b/)
  assert(!seen.includes(canary))
  const [asked] = broker.requests(SaslAuthenticate)
  assert.equal(asked?.body.authBytes.toString(), `\0alice\0${canary}`)
})

test('what shows a secret to the network needs TLS, or to be asked for', () => {
  const password = new Secret(canary)
  const plain: SaslOptions = { mechanism: 'PLAIN', username: 'a', password }
  const bearer: SaslOptions = { mechanism: 'OAUTHBEARER', token: () => ({ token: canary }) }
  for (const options of [plain, bearer]) {
    assert.throws(() => saslFrom(options, false), /without TLS shows the secret/)
    assert.equal(saslFrom(options, true).mechanism, options.mechanism)
    assert.equal(saslFrom({ ...options, allowPlaintext: true }, false).mechanism, options.mechanism)
  }
  const unknown = { mechanism: 'GSSAPI' } as unknown as SaslOptions
  assert.throws(() => saslFrom(unknown, true), /there are PLAIN, SCRAM-SHA-256/)
})

test('a mechanism that the broker does not have is not replaced by another', async () => {
  const { outcome, seen, broker } = await run(
    { mechanism: 'SCRAM-SHA-512', username: 'alice', password: canary },
    b => b.on(SaslHandshake, () => ({ errorCode: 33, mechanisms: ['PLAIN', 'GSSAPI'] }))
  )
  assert.equal(outcome, 'AUTHENTICATION_FAILED')
  assert.match(seen, /refused SASL SCRAM-SHA-512: it offers PLAIN, GSSAPI/)
  assert.equal(broker.requests(SaslAuthenticate).length, 0)
  assert.deepEqual(
    new Set(broker.requests(SaslHandshake).map(({ body }) => body.mechanism)),
    new Set(['SCRAM-SHA-512'])
  )
})

test('OAUTHBEARER hands over the token and its extensions; a refusal is acknowledged and told', async () => {
  const token = () => Promise.resolve({ token: canary, extensions: { logicalCluster: 'lkc-1' } })
  const accepted = await run({ mechanism: 'OAUTHBEARER', token, allowPlaintext: true }, b => {
    b.on(SaslHandshake, () => ({ errorCode: 0, mechanisms: [] }))
    b.on(SaslAuthenticate, () => ({
      errorCode: 0,
      errorMessage: null,
      authBytes: Buffer.alloc(0)
    }))
  })
  assert.equal(accepted.outcome, 'ok')
  assert.equal(
    accepted.broker.requests(SaslAuthenticate)[0]?.body.authBytes.toString(),
    `n,,\x01auth=Bearer ${canary}\x01logicalCluster=lkc-1\x01\x01`
  )
  const refused = await run({ mechanism: 'OAUTHBEARER', token, allowPlaintext: true }, b => {
    b.on(SaslHandshake, () => ({ errorCode: 0, mechanisms: [] }))
    b.on(SaslAuthenticate, ({ body: { authBytes } }) =>
      authBytes.length > 1
        ? { errorCode: 0, errorMessage: null, authBytes: Buffer.from('{"status":"invalid_token"}') }
        : { errorCode: 58, errorMessage: 'invalid_token', authBytes: Buffer.alloc(0) }
    )
  })
  assert.equal(refused.outcome, 'AUTHENTICATION_FAILED')
  assert.match(refused.seen, /invalid_token/)
  for (const { seen } of [accepted, refused]) assert(!seen.includes(canary))
})

test('a token provider that fails, or gives no token, is an authentication that failed', async () => {
  for (const token of [
    () => Promise.reject(new Error('the identity provider is down')),
    () => ({ token: 'not\na token' })
  ]) {
    const { outcome } = await run({ mechanism: 'OAUTHBEARER', token, allowPlaintext: true }, b =>
      b.on(SaslHandshake, () => ({ errorCode: 0, mechanisms: [] }))
    )
    assert(['AUTHENTICATION_FAILED', 'INVALID_ARGUMENT'].includes(outcome), outcome)
  }
})

test('a session that ends is renewed on the same connection, between other requests', async () => {
  const world = new World()
  const broker = await world.start()
  const order: string[] = []
  broker.on(SaslHandshake, () => ({ errorCode: 0, mechanisms: [] }))
  broker.on(SaslAuthenticate, () => {
    order.push('authenticate')
    const authBytes = Buffer.alloc(0)
    return { errorCode: 0, errorMessage: null, authBytes, sessionLifetimeMs: 60_000 }
  })
  broker.on(Heartbeat, async () => {
    order.push('beat begins')
    await new Promise<void>(resolve => void world.clock.after(900, resolve))
    order.push('beat ends')
    return { errorCode: 0 }
  })
  await world.play(async () => {
    const sasl = {
      mechanism: 'PLAIN',
      username: 'a',
      password: canary,
      allowPlaintext: true
    } as const
    const cluster = world.cluster({ sasl })
    const connections = new Set<number>()
    while (world.clock.monotonic() < 130_000) {
      const { connection } = await cluster.send(Heartbeat, beat, { to: { node: 0 } }).response
      connections.add(connection)
    }
    assert.equal(connections.size, 1)
    assert.equal(order.filter(what => what === 'authenticate').length, 3)
    // Never within a request.
    order.forEach((what, i) => {
      if (what === 'beat begins') assert.equal(order[i + 1], 'beat ends')
    })
    await cluster.close()
    await broker.die()
  })
  assert.equal(world.clock.pending, 0)
})

test('a renewal that is not answered ends the connection', async () => {
  const world = new World()
  const broker = await world.start()
  broker.on(SaslHandshake, () =>
    broker.requests(SaslHandshake).length === 2 ? undefined : { errorCode: 0, mechanisms: [] }
  )
  broker.on(SaslAuthenticate, () => {
    const authBytes = Buffer.alloc(0)
    return { errorCode: 0, errorMessage: null, authBytes, sessionLifetimeMs: 60_000 }
  })
  broker.on(Heartbeat, () => ({ errorCode: 0 }))
  await world.play(async () => {
    const sasl = {
      mechanism: 'PLAIN',
      username: 'a',
      password: canary,
      allowPlaintext: true
    } as const
    const cluster = world.cluster({ sasl })
    await cluster.request(Heartbeat, beat, { to: { node: 0 } })
    await new Promise<void>(resolve => void world.clock.after(58_000, resolve))
    assert.equal(broker.requests(SaslHandshake).length, 2)
    const answer = await cluster.request(Heartbeat, beat, { to: { node: 0 } })
    assert.equal(answer.errorCode, 0)
    assert.deepEqual(
      broker.connections.map(c => c.closed),
      [true, false]
    )
    await cluster.close()
    await broker.die()
  })
})
