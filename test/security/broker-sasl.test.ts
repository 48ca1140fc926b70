/** The embedded broker asks who is there: what is said before, who gets in, for how long, and what nobody sees (S7, S8, S15). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import type { Log } from '../../src/base/env.ts'
import { nodeCpu } from '../../src/base/node/cpu.ts'
import { nodeEnv } from '../../src/base/node/env.ts'
import { PlayheadError } from '../../src/base/error.ts'
import { Secret } from '../../src/base/secret.ts'
import { Broker, type BrokerSaslOptions, scramCredential } from '../../src/broker.ts'
import { Playhead, type SaslOptions } from '../../src/index.ts'
import { ApiVersions } from '../../src/protocol/api/api-versions.ts'
import { DeleteGroups } from '../../src/protocol/api/delete-groups.ts'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { SaslAuthenticate } from '../../src/protocol/api/sasl-authenticate.ts'
import { SaslHandshake } from '../../src/protocol/api/sasl-handshake.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { Wire } from '../broker/wire.ts'

const env = nodeEnv({ cpu: nodeCpu() })
const canary = 'canary-pa55word'
const token = 'canary-t0ken'
const users = { alice: canary, bob: 'canary-0ther' }
const empty = Buffer.alloc(0)
const greeting = { clientSoftwareName: 'wire', clientSoftwareVersion: '1' }

/** Everything that a broker says. */
function listening(): { readonly said: string[]; readonly log: Log } {
  const said: string[] = []
  const say = (message: string, fields?: object) =>
    said.push(`${message} ${inspect(fields, { depth: 9 })}`)
  return { said, log: { debug: say, info: say, warn: say, error: say } }
}

async function start(sasl: BrokerSaslOptions, log: Log = listening().log) {
  const broker = await Broker.start({ topics: { orders: 1 }, sasl, log })
  return { broker, address: broker.bootstrap[0] ?? '', [Symbol.asyncDispose]: () => broker.close() }
}

/** The outcome of a client's first call, and all that it printed. */
async function comeIn(
  bootstrap: readonly string[],
  sasl: SaslOptions | undefined
): Promise<{ outcome: string; seen: string }> {
  const { said, log } = listening()
  await using kafka = new Playhead({ bootstrap, sasl, log })
  const outcome: unknown = await kafka.cluster.topic('orders', { timeoutMs: 8_000 }).then(
    () => 'in',
    (error: unknown) => error
  )
  const seen = [
    inspect(outcome, { depth: 20 }),
    JSON.stringify(outcome),
    inspect(kafka, { depth: 20, showHidden: true }),
    ...said
  ]
  const short = outcome instanceof PlayheadError ? outcome.code : String(outcome)
  return { outcome: short, seen: seen.join('\n') }
}

const mechanisms = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const

for (const mechanism of mechanisms) {
  test(`${mechanism}: the right password gets in, a wrong one and an unknown name are refused alike`, async () => {
    const { said, log } = listening()
    await using at = await start({ users }, log)
    const sasl = (username: string, password: string) =>
      ({
        mechanism,
        username,
        password,
        ...(mechanism === 'PLAIN' && { allowPlaintext: true })
      }) as SaslOptions
    const good = await comeIn(at.broker.bootstrap, sasl('alice', canary))
    assert.equal(good.outcome, 'in', good.seen)
    const wrong = await comeIn(at.broker.bootstrap, sasl('alice', 'canary-wr0ng'))
    const unknown = await comeIn(at.broker.bootstrap, sasl('nobody', canary))
    for (const { outcome, seen } of [wrong, unknown]) {
      assert.equal(outcome, 'AUTHENTICATION_FAILED')
      assert.match(seen, /invalid credentials with SASL mechanism/)
    }
    const printed = [
      ...said,
      inspect(at.broker, { depth: 20, showHidden: true }),
      good.seen,
      wrong.seen,
      unknown.seen
    ].join('\n')
    assert.match(printed, /an authentication failed/)
    assert.doesNotMatch(printed, /canary/)
  })
}

test('a user may be given by what SCRAM keeps of a password, and then also comes in by PLAIN', async () => {
  const text = await scramCredential('SCRAM-SHA-512', new Secret(canary), 5_000)
  assert.match(text, /^salt=\S+,stored_key=\S+,server_key=\S+,iterations=5000$/)
  assert.doesNotMatch(text, /canary/)
  await using at = await start({ users: { alice: { 'SCRAM-SHA-512': text } } })
  const who = { username: 'alice', password: canary }
  for (const sasl of [
    { mechanism: 'SCRAM-SHA-512', ...who },
    { mechanism: 'PLAIN', allowPlaintext: true, ...who }
  ] as const) {
    assert.equal((await comeIn(at.broker.bootstrap, sasl)).outcome, 'in')
    assert.equal(
      (await comeIn(at.broker.bootstrap, { ...sasl, password: 'x' })).outcome,
      'AUTHENTICATION_FAILED'
    )
  }
  const { outcome, seen } = await comeIn(at.broker.bootstrap, {
    mechanism: 'SCRAM-SHA-256',
    ...who
  })
  assert.equal(outcome, 'AUTHENTICATION_FAILED')
  assert.match(seen, /it offers PLAIN, SCRAM-SHA-512/)
})

test('OAUTHBEARER: the validator says whose a token is; what it throws is told to nobody', async () => {
  const { said, log } = listening()
  const shown: string[] = []
  await using at = await start(
    {
      oauthbearer: (given, extensions) => {
        shown.push(`${given} ${extensions.get('logicalCluster')}`)
        if (given !== token) throw new Error(`no such token: ${given}`)
        return { principal: 'alice' }
      }
    },
    log
  )
  const sasl = (given: string) => ({
    mechanism: 'OAUTHBEARER' as const,
    allowPlaintext: true,
    token: () => ({ token: given, extensions: { logicalCluster: 'lkc' } })
  })
  assert.equal((await comeIn(at.broker.bootstrap, sasl(token))).outcome, 'in')
  const { outcome, seen } = await comeIn(at.broker.bootstrap, sasl('canary-f0rged'))
  assert.equal(outcome, 'AUTHENTICATION_FAILED')
  assert.match(seen, /invalid_token|the token is refused/)
  assert.deepEqual(shown, [`${token} lkc`, 'canary-f0rged lkc'])
  assert.doesNotMatch([...said, seen].join('\n'), /canary/)
})

test('before it is known a connection may ask for ApiVersions, SaslHandshake, SaslAuthenticate, in their order', async () => {
  await using at = await start({ users })
  const ask = async (steps: (wire: Wire) => Promise<unknown>) => {
    const wire = await Wire.connect(env, at.address)
    const outcome = await steps(wire).then(
      () => 'answered',
      () => 'closed'
    )
    wire.abort()
    return outcome
  }
  const list = (wire: Wire) => wire.ask(ListGroups, 4, { statesFilter: [] })
  const greet = (wire: Wire) => wire.ask(ApiVersions, 3, greeting)
  const shake = (wire: Wire) => wire.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
  const login = (wire: Wire) =>
    wire.ask(SaslAuthenticate, 2, { authBytes: Buffer.from(`\0alice\0${canary}`) })
  assert.equal(await ask(list), 'closed')
  assert.equal(await ask(greet), 'answered')
  assert.equal(await ask(login), 'closed', 'before the handshake')
  assert.equal(await ask(async wire => [await shake(wire), await list(wire)]), 'closed')
  assert.equal(await ask(async wire => [await shake(wire), await greet(wire)]), 'closed')
  assert.equal(
    await ask(async wire => [await shake(wire), await Promise.all([login(wire), list(wire)])]),
    'closed'
  )
  assert.equal(
    await ask(async wire => [
      await greet(wire),
      await shake(wire),
      await login(wire),
      await list(wire)
    ]),
    'answered'
  )
})

test('what one connection has proved is worth nothing on another', async () => {
  await using at = await start({ users })
  const known = await Wire.connect(env, at.address)
  await known.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
  const { errorCode } = await known.ask(SaslAuthenticate, 2, {
    authBytes: Buffer.from(`\0bob\0${users.bob}`)
  })
  assert.equal(errorCode, KafkaError.NONE)
  const other = await Wire.connect(env, at.address)
  await assert.rejects(other.ask(ListGroups, 4, { statesFilter: [] }))
  assert.equal((await known.ask(ListGroups, 4, { statesFilter: [] })).errorCode, 0)
  await known.close()
})

test('a stranger may not announce more than 512 KiB; who is known may', async () => {
  await using at = await start({ users })
  const size = Buffer.alloc(4)
  size.writeInt32BE(512 * 1024 + 1)
  const stranger = await Wire.connect(env, at.address)
  stranger.send(size)
  await stranger.closed
  const known = await Wire.connect(env, at.address)
  await known.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
  await known.ask(SaslAuthenticate, 2, { authBytes: Buffer.from(`\0alice\0${canary}`) })
  const groupsNames = Array.from({ length: 20_000 }, (_, i) => `${'a'.repeat(30)}${i}`)
  const { results } = await known.ask(DeleteGroups, 2, { groupsNames })
  assert.equal(results.length, groupsNames.length)
  await known.close()
})

test('a listener that asks nobody says so, and is not broken by being told', async () => {
  await using broker = await Broker.start()
  const wire = await Wire.connect(env, broker.bootstrap[0] ?? '')
  const shaken = await wire.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
  const answered = await wire.ask(SaslAuthenticate, 2, { authBytes: empty })
  assert.deepEqual(
    [shaken.errorCode, answered.errorCode],
    Array(2).fill(KafkaError.ILLEGAL_SASL_STATE)
  )
  assert.equal((await wire.ask(ListGroups, 4, { statesFilter: [] })).errorCode, 0)
  await wire.close()
})

test('a recorded exchange is worth nothing when it is played again', async () => {
  await using at = await start({ users })
  const said: Buffer[] = []
  const shake = async (wire: Wire) => wire.ask(SaslHandshake, 1, { mechanism: 'SCRAM-SHA-256' })
  const { saslFrom } = await import('../../src/rpc/sasl/sasl.ts')
  const sasl = saslFrom({ mechanism: 'SCRAM-SHA-256', username: 'alice', password: canary }, false)
  const good = await Wire.connect(env, at.address)
  await shake(good)
  await sasl.authenticate(
    env,
    async bytes => {
      said.push(bytes)
      return (await good.ask(SaslAuthenticate, 2, { authBytes: bytes })).authBytes
    },
    { host: 'b', port: 9092, encrypted: false }
  )
  assert.equal((await good.ask(ListGroups, 4, { statesFilter: [] })).errorCode, 0)
  await good.close()
  const replay = await Wire.connect(env, at.address)
  await shake(replay)
  const codes = []
  for (const authBytes of said)
    codes.push((await replay.ask(SaslAuthenticate, 2, { authBytes })).errorCode)
  assert.deepEqual(codes, [KafkaError.NONE, KafkaError.SASL_AUTHENTICATION_FAILED])
  await replay.closed
})

test('who may not rewind is refused by the ledger and by a controller, and may do all else', async () => {
  await using at = await start({ users, rewinders: ['alice'] })
  const as = (username: 'alice' | 'bob') =>
    new Playhead({
      bootstrap: at.broker.bootstrap,
      sasl: { mechanism: 'SCRAM-SHA-256', username, password: users[username] }
    })
  await using alice = as('alice')
  await using bob = as('bob')
  await bob.producer().send('orders', { value: 'x' })
  await using consumer = bob.consumer({
    group: 'billing',
    topics: ['orders'],
    startFrom: 'earliest',
    commit: 'manual'
  })
  const [record] = await consumer.poll({ timeoutMs: 10_000, maxRecords: 1 })
  await record?.commit()
  const rewind = async (kafka: Playhead) => {
    const admin = kafka.admin()
    return admin.rewind(await admin.planRewind('billing', { topics: ['orders'], to: 'earliest' }), {
      timeoutMs: 5_000
    })
  }
  await assert.rejects(rewind(bob), /GROUP_AUTHORIZATION_FAILED/)
  const offsets: number[] = []
  const reading = (async () => {
    while (!offsets.includes(0)) {
      for (const { offset } of await consumer.poll({ timeoutMs: 10_000 })) offsets.push(offset)
    }
  })()
  await rewind(alice)
  await reading
})

test('options that let nobody in, or secrets out, are refused by name', async () => {
  const wrong: readonly (readonly [BrokerSaslOptions, RegExp])[] = [
    [{}, /nobody could come in/],
    [{ users: {} }, /nobody could come in/],
    [{ users: { alice: '' } }, /"alice": the password is empty/],
    [{ users: { alice: {} } }, /give a password, or a credential/],
    [
      { users: { alice: { 'SCRAM-SHA-256': 'salt=canary,iterations=1' } } },
      /no credential for SCRAM-SHA-256/
    ],
    [{ users, mechanisms: ['OAUTHBEARER'] }, /OAUTHBEARER wants the function/],
    [{ users, sessionLifetimeMs: 5 }, /sessionLifetimeMs is 5/]
  ]
  for (const [sasl, says] of wrong) {
    await assert.rejects(Broker.start({ sasl }), (error: Error) => {
      assert.match(error.message, says)
      assert.doesNotMatch(error.message, /canary/)
      return true
    })
  }
  const beyond = { host: '0.0.0.0', sasl: { users, mechanisms: ['PLAIN'] } } as const
  await assert.rejects(Broker.start(beyond), /PLAIN without TLS shows secrets/)
})
