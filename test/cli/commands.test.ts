/** The command line against the embedded broker: what it does, says, and tells the shell. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Broker } from '../../src/broker.ts'
import { Playhead } from '../../src/index.ts'
import { Cli, type Ended, playhead } from './playhead.ts'

/** One line on stderr that says what and what to do; nothing on stdout. */
function assertRefused(ended: Ended, code: number, says: RegExp): void {
  assert.equal(ended.code, code, ended.err)
  assert.equal(ended.out, '')
  assert.equal(ended.err.trimEnd().split('\n').length, 1, ended.err)
  assert.match(ended.err, says)
}

describe('playhead', () => {
  let broker: Broker
  let kafka: Playhead
  const run = (args: string, input?: string): Promise<Ended> =>
    playhead(args, broker.bootstrap, input)

  before(async () => {
    broker = await Broker.start({ topics: { orders: 3 } })
    kafka = new Playhead({ bootstrap: broker.bootstrap })
    const lines = Array.from({ length: 300 }, (_, i) => `k${i}:order ${i}\n`).join('')
    const sent = await run('produce orders --key-separator :', lines)
    assert.equal(sent.code, 0, sent.err)
    assert.match(sent.err, /300 records/)
  })
  after(async () => {
    await kafka.close()
    await broker.close()
  })

  it('creates, lists, describes and deletes topics', async () => {
    assert.equal((await run('topics create fresh --partitions 2')).code, 0)
    const listed = await run('topics list --json')
    const topics = JSON.parse(listed.out) as { topic: string; partitions: unknown[] }[]
    assert.deepEqual(
      new Map(topics.map(t => [t.topic, t.partitions.length])),
      new Map([
        ['orders', 3],
        ['fresh', 2]
      ])
    )
    assert.match((await run('topics describe fresh')).out, /fresh +0 +\d+/)
    assert.equal((await run('topics delete fresh')).code, 0)
    assert.doesNotMatch((await run('topics list')).out, /fresh/)
  })

  it('what was produced is consumed, as lines and as JSON', async () => {
    const lines = await run('consume orders --max 300 --key-separator :')
    const expected = Array.from({ length: 300 }, (_, i) => `k${i}:order ${i}`)
    assert.deepEqual(lines.out.trimEnd().split('\n').sort(), expected.sort())
    const json = await run('consume orders --max 1 --json')
    const record = JSON.parse(json.out) as Record<string, unknown>
    assert.equal(record.topic, 'orders')
    assert.equal(`k${String(record.value).slice(6)}`, record.key)
  })

  it('a group goes on where it was, and is listed, described and measured', async () => {
    assert.equal((await run('consume orders --group g --max 300')).code, 0)
    const lag = JSON.parse((await run('groups lag g --json')).out) as { lag: number }[]
    assert.deepEqual(
      lag.map(p => p.lag),
      [0, 0, 0]
    )
    assert.match((await run('groups list')).out, /^g +controller +Empty/m)
    const member = new Cli(['consume', 'orders', '--group', 'g'], broker.bootstrap)
    await member.until(cli => cli.err.includes('assigned'))
    assert.match((await run('groups describe g')).out, /orders:0,1,2/)
    member.interrupt()
    const ended = await member.ended
    assert.equal(ended.code, 0)
    assert.equal(ended.out, '', 'all was consumed before')
  })

  it('an empty group is rewound at once, and the plan alone changes nothing', async () => {
    await run('consume orders --group empty --max 300')
    const plan = await run('rewind empty --to earliest')
    assert.equal(plan.code, 0, plan.err)
    assert.match(plan.err, /Nothing was changed/)
    assert.doesNotMatch((await run('groups lag empty')).out, / 100$/m)
    const done = await run('rewind empty --topic orders:1 --to earliest --execute --json')
    assert.equal(done.code, 0, done.err)
    const { partitions } = JSON.parse(done.out) as { partitions: { state: string; to: number }[] }
    assert.deepEqual(
      partitions.map(p => [p.state, p.to]),
      [['applied', 0]]
    )
    const status = await run('rewind status empty')
    assert.equal(status.code, 0, status.err)
  })

  it('what it speaks with the broker is listed', async () => {
    assert.match((await run('api')).out, /^ *0 +Produce +3-13 +3-13$/m)
  })

  const refused: readonly (readonly [string, number, RegExp])[] = [
    ['consume nowhere --max 1', 1, /nowhere/],
    ['topics describe nowhere', 1, /nowhere/],
    ['topics create orders', 1, /orders/],
    ['groups describe nobody', 1, /nobody/],
    ['rewind nobody --topic orders --to earliest --execute', 1, /nobody/],
    ['rewind g --topic nowhere --to earliest --execute', 1, /nowhere/],
    ['rewind g --topic orders:77 --to earliest --execute', 1, /orders.*77|77.*orders/],
    ['rewind g --topic orders --to yesterday-ish --execute', 2, /yesterday-ish.*write/],
    ['rewind g --topic orders:x --to earliest', 2, /orders:0,3-5/],
    ['rewind g --topic orders:0 --to 99999 --execute', 4, /outside of orders:0.*0 to \d+.*--clamp/],
    ['rewind g', 2, /where to/]
  ]
  for (const [args, code, says] of refused) {
    it(`${args}: one line that says what and what to do, exit code ${code}`, async () => {
      const before = await kafka.admin().lag('g')
      assertRefused(await run(args), code, says)
      assert.deepEqual(await kafka.admin().lag('g'), before, 'nothing was changed')
    })
  }

  it('no broker there: one line that names the address', async () => {
    const nobody = await Broker.start()
    const { bootstrap } = nobody
    await nobody.close()
    const ended = await playhead('topics list', bootstrap)
    assertRefused(ended, 1, new RegExp(String(bootstrap[0])))
  })

  it('an unknown command or option is a matter of usage', async () => {
    for (const args of [
      'frobnicate',
      'topics list --colour',
      'produce',
      'consume orders --max x'
    ]) {
      const { code, err } = await run(args)
      assert.equal(code, 2, `${args}: ${err}`)
    }
    assert.equal((await run('--help')).code, 0)
  })
})
