/**
 * OAUTHBEARER and mechanisms of one's own: tokens by client credentials from an endpoint that may be slow, hostile or
 * gone, and bytes that a function of the user's says (S6, S15).
 */
import assert from 'node:assert/strict'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { PlayheadError } from '../../src/base/error.ts'
import { silentLog } from '../../src/base/node/log.ts'
import { Secret } from '../../src/base/secret.ts'
import { Broker } from '../../src/broker.ts'
import { type ClientCredentialsOptions, Playhead, clientCredentials } from '../../src/index.ts'
import { tokensByClientCredentials } from '../../src/rpc/sasl/client-credentials.ts'
import { VirtualClock } from '../../sim/world/clock.ts'

const secret = 'canary-secret+&='

interface Asked {
  readonly headers: http.IncomingHttpHeaders
  readonly form: URLSearchParams
}

/** An endpoint for tokens on loopback. */
async function endpoint(answer: (response: http.ServerResponse, asked: Asked) => void) {
  const asked: Asked[] = []
  const server = http.createServer((request, response) => {
    let body = ''
    request.on('data', chunk => (body += String(chunk)))
    request.on('end', () => {
      const question = { headers: request.headers, form: new URLSearchParams(body) }
      asked.push(question)
      answer(response, question)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }
  return {
    asked,
    tokenEndpoint: `http://127.0.0.1:${port}/token?x=canary-query`,
    [Symbol.asyncDispose]: close
  }
}

function json(value: unknown, status = 200) {
  return (response: http.ServerResponse) => response.writeHead(status).end(JSON.stringify(value))
}

function provider(options: Partial<ClientCredentialsOptions> & { readonly tokenEndpoint: string }) {
  return clientCredentials({ clientId: 'id:1', clientSecret: new Secret(secret), ...options })
}

/** What a provider rejects with; nothing of it shows a secret. */
async function failure(provide: () => Promise<unknown>): Promise<string> {
  try {
    await provide()
  } catch (error) {
    assert(error instanceof PlayheadError)
    assert.equal(error.code, 'AUTHENTICATION_FAILED')
    assert.doesNotMatch(`${inspect(error, { depth: 9 })} ${JSON.stringify(error)}`, /canary/)
    return error.message
  }
  return assert.fail('a token was given')
}

test('client credentials get a token, shown in the header or in the body, and a client in', async () => {
  const answer = { access_token: 'canary-t0ken', token_type: 'Bearer', expires_in: 600 }
  await using at = await endpoint(json(answer))
  const { tokenEndpoint } = at
  await using broker = await Broker.start({
    topics: { orders: 1 },
    log: silentLog,
    sasl: {
      oauthbearer: (token, extensions) => ({ principal: `${token}${extensions.get('pool')}` })
    }
  })
  const token = provider({
    tokenEndpoint,
    scope: 'kafka read',
    parameters: { audience: 'kafka' },
    extensions: { pool: 'a' }
  })
  await using kafka = new Playhead({
    bootstrap: broker.bootstrap,
    sasl: { mechanism: 'OAUTHBEARER', token, allowPlaintext: true }
  })
  await kafka.cluster.topic('orders')
  await provider({ tokenEndpoint, authentication: 'body' })()
  const [first, second] = at.asked
  assert.equal(
    first?.headers.authorization,
    `Basic ${Buffer.from('id%3A1:canary-secret%2B%26%3D').toString('base64')}`
  )
  assert.deepEqual(Object.fromEntries(first?.form ?? []), {
    grant_type: 'client_credentials',
    scope: 'kafka read',
    audience: 'kafka'
  })
  assert.equal(second?.headers.authorization, undefined)
  assert.equal(second?.form.get('client_secret'), secret)
  assert.equal(at.asked.length, 2, 'each connection of the client had the same token')
})

test('a token is kept until it has used up 80 % of its life, is shared, and outlives a failing endpoint', async () => {
  const clock = new VirtualClock()
  let count = 0
  let up = true
  const world = {
    clock,
    post: async () => {
      count++
      if (!up) throw new Error('connect ECONNREFUSED')
      return {
        status: 200,
        body: Buffer.from(JSON.stringify({ access_token: `t${count}`, expires_in: 100 }))
      }
    }
  }
  const token = tokensByClientCredentials(world, {
    tokenEndpoint: 'https://idp',
    clientId: 'i',
    clientSecret: 's'
  })
  const get = async () => String(((await clock.play(token())).token as Secret).reveal())
  assert.deepEqual(
    await clock.play(Promise.all([token(), token()]).then(both => both[0] === both[1])),
    true
  )
  await clock.advance(79_000)
  assert.equal(await get(), 't1')
  await clock.advance(2_000)
  assert.equal(await get(), 't2')
  up = false
  await clock.advance(90_000)
  assert.equal(await get(), 't2', 'it still lives')
  assert.equal(count, 5, 'three attempts')
  await clock.advance(11_000)
  await assert.rejects(clock.play(token()), /https:\/\/idp\/ gave no token: connect ECONNREFUSED/)
})

const refusals: readonly (readonly [
  what: string,
  answer: (response: http.ServerResponse) => void,
  says: RegExp
])[] = [
  [
    'a refusal that repeats the secret',
    json({ error: 'invalid_client', error_description: `no ${secret}\u001b[31m` }, 401),
    /: 401 invalid_client: no \*\*\*\\x1b/
  ],
  ['no JSON', response => response.end('<html>canary'), /holds no access_token/],
  [
    'a token that would break out of its message',
    json({ access_token: 'a\x01b' }),
    /holds no access_token/
  ],
  ['a token of another kind', json({ access_token: 'a', token_type: 'mac' }), /no bearer token/],
  [
    'a redirect',
    response => response.writeHead(302, { location: 'http://127.0.0.1:1/canary' }).end(),
    /: 302/
  ],
  ['an answer without end', flood, /an answer of more than 262144 bytes/],
  ['silence', () => {}, /no answer within \d+ ms/],
  ['a hang-up', response => response.destroy(), /socket hang up/]
]

for (const [what, answer, says] of refusals) {
  test(`a token endpoint that gives ${what} gives no token, in bounded time and memory`, async () => {
    await using at = await endpoint(answer)
    const begun = performance.now()
    const message = await failure(provider({ tokenEndpoint: at.tokenEndpoint, timeoutMs: 1_500 }))
    assert.match(message, says)
    assert.match(message, /^the token endpoint http:\/\/127\.0\.0\.1:\d+\/token gave no token/)
    assert(performance.now() - begun < 10_000)
  })
}

/** As fast as it is read. */
function flood(response: http.ServerResponse): void {
  while (!response.destroyed && response.write(Buffer.alloc(65_536, 32)));
  if (!response.destroyed) response.once('drain', () => flood(response))
}

test('a secret goes to an endpoint by https, or stays on this machine; nothing wrong is repeated', () => {
  for (const [tokenEndpoint, says] of [
    ['http://idp.example/token?canary', /begins with http:\/\/: https:\/\/ is needed/],
    ['ftp://127.0.0.1/canary', /begins with ftp:/],
    ['https://id:canary@idp.example/', /holds a name or password/],
    ['canary', /is no URL/]
  ] as const) {
    assert.throws(
      () => provider({ tokenEndpoint }),
      (error: Error) => says.test(error.message) && !error.message.includes('canary')
    )
  }
  for (const tokenEndpoint of [
    'http://localhost:1/',
    'http://[::1]:1/',
    'http://127.0.0.1/',
    'https://idp.example/'
  ]) {
    assert.equal(typeof provider({ tokenEndpoint }), 'function')
  }
})

test('a function of the user says what it likes, knows whom it talks to, and fails without showing why', async () => {
  await using broker = await Broker.start({
    topics: { orders: 1 },
    log: silentLog,
    sasl: { users: { alice: secret } }
  })
  const seen: string[] = []
  const as = (password: string) =>
    new Playhead({
      bootstrap: broker.bootstrap,
      log: silentLog,
      sasl: {
        mechanism: {
          name: 'PLAIN',
          authenticate: async (say, { host, port, encrypted }) => {
            seen.push(`${host}:${port} ${encrypted}`)
            if (password === '') throw new Error('canary')
            await say(Buffer.from(`\0alice\0${password}`))
          }
        }
      }
    })
  await using good = as(secret)
  await good.cluster.topic('orders')
  assert.equal(seen[0], `${broker.bootstrap[0]} false`)
  for (const [password, says] of [
    ['wrong', /refused SASL PLAIN/],
    ['', /authenticate\(\) of PLAIN failed: see `cause`/]
  ] as const) {
    await using bad = as(password)
    await assert.rejects(bad.cluster.topic('orders'), (error: PlayheadError) => {
      assert.equal(error.code, 'AUTHENTICATION_FAILED')
      assert.match(error.message, says)
      assert.doesNotMatch(error.message, /canary/)
      return true
    })
  }
})
