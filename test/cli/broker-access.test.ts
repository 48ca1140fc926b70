/** `playhead broker` asks who is there, as its options say, and `playhead` shows it; nothing that is secret is printed. */
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Broker, scramCredential } from '../../src/broker.ts'
import { silentLog } from '../../src/base/node/log.ts'
import {
  brokerCert,
  brokerKey,
  firstCert,
  firstKey,
  secondAuthority
} from '../net/more-certificates.ts'
import { Cli, playhead } from './playhead.ts'

const canary = 'canary-pa55word'
const secrets = { PLAYHEAD_PASSWORD: canary }

class Folder {
  readonly #path = mkdtempSync(join(tmpdir(), 'playhead-access-'))

  file(name: string, content: string, mode = 0o600): string {
    const path = join(this.#path, name)
    writeFileSync(path, content)
    chmodSync(path, mode)
    return path
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { recursive: true })
  }
}

/** Starts `playhead broker` and gives its address. */
async function start(args: string, environment: Readonly<Record<string, string>> = {}) {
  const cli = new Cli(
    `broker --port 0 --topic orders ${args}`.split(' '),
    [],
    undefined,
    environment
  )
  await cli.until(({ out }) => out.includes('\n'))
  return { cli, bootstrap: [cli.out.trim()] }
}

test('with mutual TLS and SCRAM: who shows both gets in, who lacks one does not', async () => {
  using folder = new Folder()
  const ca = folder.file('ca.pem', secondAuthority)
  const own = `--tls-cert ${folder.file('b.pem', brokerCert)} --tls-key ${folder.file('b.key', brokerKey)}`
  const { cli, bootstrap } = await start(
    `${own} --tls-ca ${ca} --sasl SCRAM-SHA-512,PLAIN --username alice`,
    secrets
  )
  const tls = `--tls-ca ${ca} --tls-cert ${folder.file('c.pem', firstCert)} --tls-key ${folder.file('c.key', firstKey)}`
  const list = (args: string, environment = secrets) =>
    playhead(`topics list ${args}`, bootstrap, undefined, environment)
  const scram = `${tls} --sasl SCRAM-SHA-512 --username alice`
  const [good, plain, wrong, noSasl, noTls] = await Promise.all([
    list(scram),
    list(`${tls} --sasl plain --username alice`),
    list(scram, { PLAYHEAD_PASSWORD: 'canary-wr0ng' }),
    list(tls),
    list('--sasl SCRAM-SHA-512 --username alice')
  ])
  cli.interrupt()
  const ended = await cli.ended
  assert.match(good.out, /orders/, good.err)
  assert.match(plain.out, /orders/, plain.err)
  assert.match(wrong.err, /refused SASL SCRAM-SHA-512/)
  assert.match(noSasl.err, /does it want to know who you are/)
  assert.match(noTls.err, /is this port for TLS|looks like a TLS/)
  assert.match(ended.err, /an authentication failed/)
  assert.doesNotMatch(JSON.stringify([ended, good, plain, wrong, noSasl, noTls]), /canary/)
})

test('users come from a file, with passwords or with what SCRAM keeps of them; one that others can read is warned of', async () => {
  using folder = new Folder()
  const users = {
    alice: canary,
    bob: { 'SCRAM-SHA-256': await scramCredential('SCRAM-SHA-256', 'canary-0ther') }
  }
  const file = folder.file('users.json', JSON.stringify(users), 0o644)
  const { cli, bootstrap } = await start(
    `--sasl SCRAM-SHA-256 --users ${file} --session-lifetime 3600`
  )
  const list = (name: string, password: string) =>
    playhead(`topics list --sasl SCRAM-SHA-256 --username ${name}`, bootstrap, undefined, {
      PLAYHEAD_PASSWORD: password
    })
  const alice = await list('alice', canary)
  const bob = await list('bob', 'canary-0ther')
  cli.interrupt()
  const { err } = await cli.ended
  assert.match(alice.out, /orders/, alice.err)
  assert.match(bob.out, /orders/, bob.err)
  assert.match(err, /users\.json holds passwords and can be read by others/)
  assert.doesNotMatch(err, /canary/)
})

test('what is missing is said by the name of its option, and shows nothing of what was given', async () => {
  using folder = new Folder()
  const broken = folder.file('broken.json', `{"alice": "${canary}"`)
  for (const [args, says] of [
    ['--host 0.0.0.0', /--sasl or --tls-ca, or say --open/],
    ['--tls', /--tls-cert and --tls-key/],
    ['--sasl PLAIN', /--username, with the password in PLAYHEAD_PASSWORD, or --users/],
    ['--username alice', /--username wants --sasl/],
    ['--sasl OAUTHBEARER', /`sasl\.oauthbearer` of Broker\.start/],
    ['--sasl GSSAPI', /Allowed choices are PLAIN/],
    [`--sasl PLAIN --users ${broken}`, /is not \{"alice": "password"/],
    ['--sasl PLAIN --users nowhere.json', /nowhere\.json can't be read: ENOENT/]
  ] as const) {
    const { code, err } = await playhead(`broker --port 0 ${args}`, [])
    assert.equal(code, 2, `${args}: ${err}`)
    assert.match(err, says)
    assert.doesNotMatch(err, /canary/)
  }
})

test('OAUTHBEARER from the command line: a token in PLAYHEAD_TOKEN', async () => {
  await using broker = await Broker.start({
    topics: { orders: 1 },
    log: silentLog,
    sasl: {
      oauthbearer: token => {
        if (token !== canary) throw new Error('another token')
        return { principal: 'alice' }
      }
    }
  })
  const list = (PLAYHEAD_TOKEN: string) =>
    playhead('topics list --sasl OAUTHBEARER --allow-plaintext', broker.bootstrap, undefined, {
      PLAYHEAD_TOKEN
    })
  assert.match((await list(canary)).out, /orders/)
  const { code, err } = await list('canary-wr0ng')
  assert.equal(code, 1)
  assert.match(err, /the token is refused: \{"status":"invalid_token"\}/)
  assert.doesNotMatch(err, /canary/)
})
