/** The command line gets into clusters that don't let everybody in, and shows no password. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { test } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { accessOf } from '../../src/cli/access.ts'
import { authority, otherAuthority, serverCert, serverKey } from '../net/certificates.ts'
import { playhead } from './playhead.ts'

test('over TLS with an authority of its own, and not with another', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'playhead-access-'))
  try {
    const file = (name: string, content: string) => {
      writeFileSync(join(folder, name), content)
      return join(folder, name)
    }
    const tls = { cert: serverCert, key: serverKey }
    await using broker = await Broker.start({ host: 'localhost', topics: { orders: 1 }, tls })
    const bootstrap = broker.bootstrap.map(at => at.replace(/^.*:/, 'localhost:'))
    const good = await playhead(
      `topics list --tls-ca ${file('ca.pem', authority)} --json`,
      bootstrap
    )
    assert.match(good.out, /"orders"/, good.err)
    const bad = await playhead(`topics list --tls-ca ${file('x.pem', otherAuthority)}`, bootstrap)
    assert.equal(bad.code, 1)
    assert.match(bad.err, /certificate/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a password comes from the environment alone, and is not shown', () => {
  const options = { sasl: ['SCRAM-SHA-256'], username: 'alice' } as const
  const access = accessOf(options, { PLAYHEAD_PASSWORD: 'canary' })
  assert.equal(access.sasl?.mechanism, 'SCRAM-SHA-256')
  assert.ok(!inspect(access, { depth: 9 }).includes('canary'))
  assert.deepEqual(accessOf({}, { PLAYHEAD_PASSWORD: 'canary' }), {})
})

test('what is missing is said, by the name of its option', async () => {
  for (const [args, says] of [
    ['--sasl PLAIN', /--username/],
    ['--sasl PLAIN --username alice', /PLAYHEAD_PASSWORD/],
    ['--username alice', /--sasl/],
    ['--token-endpoint https://x', /--sasl/],
    ['--sasl OAUTHBEARER', /PLAYHEAD_TOKEN/],
    ['--sasl OAUTHBEARER --token-endpoint https://x', /--username/],
    ['--sasl PLAIN,OAUTHBEARER', /one mechanism/],
    ['--tls-cert nowhere.pem', /--tls-key/],
    ['--tls-ca nowhere.pem', /nowhere\.pem can't be read: ENOENT/]
  ] as const) {
    const { code, err } = await playhead(`topics list ${args}`, ['127.0.0.1:9'])
    assert.equal(code, 2, args)
    assert.match(err, says)
    assert.equal(err.trimEnd().split('\n').length, 1, err)
  }
})
