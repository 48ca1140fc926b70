/** What becomes of a connection to a broker that asks who is there, in virtual time: refusals, waits, renewals (S2, S7). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ListGroups } from '../../src/protocol/api/list-groups.ts'
import { SaslAuthenticate } from '../../src/protocol/api/sasl-authenticate.ts'
import { SaslHandshake } from '../../src/protocol/api/sasl-handshake.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import { Wire } from '../broker/wire.ts'
import { VirtualWorld } from '../client/consumer/virtual.ts'

const canary = 'canary-pa55word'
const users = { alice: canary, bob: 'canary-0ther' }

const broken: readonly (readonly [mechanism: string, ...said: string[]])[] = [
  ['PLAIN', ''],
  ['PLAIN', 'alice'],
  ['PLAIN', `\0alice\0${canary}\0`],
  ['PLAIN', `bob\0alice\0${canary}`],
  ['PLAIN', '\0\0'],
  ['PLAIN', '\0__proto__\0x'],
  ['SCRAM-SHA-256', ''],
  ['SCRAM-SHA-256', 'n,,n=,r=x'],
  ['SCRAM-SHA-256', 'p=tls-unique,,n=alice,r=x'],
  ['SCRAM-SHA-256', 'n,,m=new,n=alice,r=x'],
  ['SCRAM-SHA-256', 'n,a=bob,n=alice,r=x'],
  ['SCRAM-SHA-256', 'n,,n=al=ice,r=x'],
  ['SCRAM-SHA-256', 'n,,n=alice,r=x', 'c=biws,r=x,p=AAAA'],
  ['SCRAM-SHA-512', 'n,,n=__proto__,r=x', ''],
  ['SCRAM-SHA-512', 'n,,n=alice,r=x', `n,,n=alice,r=x`]
]

test('messages that no mechanism knows are refused, and end their connection', async () => {
  const world = await new VirtualWorld().start({ sasl: { users, allowPlaintext: true } })
  const { clock } = world
  for (const [mechanism, ...said] of broken) {
    await clock.play(
      (async () => {
        const wire = await Wire.connect(world.env('stranger'), 'b:9092')
        await wire.ask(SaslHandshake, 1, { mechanism })
        let last = 0
        for (const text of said)
          last = (await wire.ask(SaslAuthenticate, 2, { authBytes: Buffer.from(text) })).errorCode
        assert.equal(
          last,
          KafkaError.SASL_AUTHENTICATION_FAILED,
          `${mechanism} ${said.join(' | ')}`
        )
        await wire.closed
      })()
    )
  }
  await clock.play(world.broker.close())
  assert.equal(clock.pending, 0)
})

test('each failure of an address is answered later than the one before, to 5 s; others are not held up', async () => {
  const world = await new VirtualWorld().start({ sasl: { users, allowPlaintext: true } })
  const { clock } = world
  const login = async (from: string, password: string) => {
    const wire = await Wire.connect(world.env(from), 'b:9092')
    await wire.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
    const begun = clock.monotonic()
    const { errorCode } = await wire.ask(SaslAuthenticate, 2, {
      authBytes: Buffer.from(`\0alice\0${password}`)
    })
    wire.abort()
    return { errorCode, tookMs: clock.monotonic() - begun }
  }
  const took: number[] = []
  for (let i = 0; i < 8; i++) took.push((await clock.play(login('guesser', `guess ${i}`))).tookMs)
  for (const [i, least] of [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].entries()) {
    const ms = took[i] ?? 0
    assert(ms >= least && ms < least + 100, `${i}: ${ms}`)
  }
  const good = await clock.play(login('neighbour', canary))
  assert.equal(good.errorCode, 0)
  assert(good.tookMs < 100, `${good.tookMs}`)
  await clock.play(world.broker.close())
})

test('who does not say who it is within ten seconds is disconnected', async () => {
  const world = await new VirtualWorld().start({ sasl: { users } })
  const { clock } = world
  const wire = await clock.play(Wire.connect(world.env('silent'), 'b:9092'))
  const from = clock.monotonic()
  await clock.play(wire.closed)
  const ms = clock.monotonic() - from
  assert(ms >= 10_000 && ms < 16_000, `${ms}`)
  await clock.play(world.broker.close())
})

test('a session ends: the client renews it in place, by the same name alone; who does not is cut off', async () => {
  const world = await new VirtualWorld().start({
    sasl: { users, allowPlaintext: true, sessionLifetimeMs: 60_000 }
  })
  const { clock } = world
  const pass = (ms: number) => new Promise<void>(resolve => clock.after(ms, resolve))
  const connect = async () => {
    const wire = await Wire.connect(world.env('client'), 'b:9092')
    await wire.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
    return wire
  }
  const prove = (wire: Wire, name: 'alice' | 'bob') =>
    wire.ask(SaslAuthenticate, 2, { authBytes: Buffer.from(`\0${name}\0${users[name]}`) })
  const list = (wire: Wire) => wire.ask(ListGroups, 4, { statesFilter: [] })
  await clock.play(
    (async () => {
      const forgetful = await connect()
      assert.equal((await prove(forgetful, 'alice')).sessionLifetimeMs, 60_000)
      const early = await forgetful.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })
      assert.equal(early.errorCode, KafkaError.ILLEGAL_SASL_STATE, 'within a second')
      const renewing = await connect()
      await prove(renewing, 'alice')
      const other = await connect()
      await prove(other, 'alice')
      await pass(50_000)
      for (const wire of [renewing, other]) {
        assert.equal((await wire.ask(SaslHandshake, 1, { mechanism: 'PLAIN' })).errorCode, 0)
      }
      assert.equal((await prove(renewing, 'alice')).errorCode, 0)
      assert.equal((await prove(other, 'bob')).errorCode, KafkaError.SASL_AUTHENTICATION_FAILED)
      await other.closed
      assert.equal((await list(forgetful)).errorCode, 0)
      await pass(11_000)
      await assert.rejects(list(forgetful))
      assert.equal((await list(renewing)).errorCode, 0)
      renewing.abort()
    })()
  )
  await clock.play(world.broker.close())
})

test("a token's end is the session's end, and one that has ended opens nothing", async () => {
  const world = new VirtualWorld()
  const { clock } = world
  let leftMs = 30_000
  await world.start({
    sasl: {
      oauthbearer: () => ({ principal: 'a', expiresAt: clock.now() + leftMs }),
      allowPlaintext: true
    }
  })
  const prove = async () => {
    const wire = await Wire.connect(world.env('client'), 'b:9092')
    await wire.ask(SaslHandshake, 1, { mechanism: 'OAUTHBEARER' })
    const answer = await wire.ask(SaslAuthenticate, 2, {
      authBytes: Buffer.from('n,,\x01auth=Bearer t\x01\x01')
    })
    wire.abort()
    return answer
  }
  const { errorCode, sessionLifetimeMs } = await clock.play(prove())
  assert.equal(errorCode, 0)
  assert(sessionLifetimeMs > 29_000 && sessionLifetimeMs <= 30_000, `${sessionLifetimeMs}`)
  leftMs = -1
  assert.equal((await clock.play(prove())).errorCode, KafkaError.SASL_AUTHENTICATION_FAILED)
  await clock.play(world.broker.close())
})
