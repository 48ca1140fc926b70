/** Kafka's own command line tools, against the embedded broker: three brokers in one process. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { unique } from '../broker/group-wire.ts'
import { Playhead } from '../../src/index.ts'
import { type Protocol, given } from './agent.ts'
import { EmbeddedProcess } from './embedded.ts'

const protocols: readonly Protocol[] = ['classic', 'consumer']
const files = mkdtempSync(join(tmpdir(), 'playhead-tools-'))
let broker: EmbeddedProcess

before(async () => {
  broker = await EmbeddedProcess.start(3)
})
after(async () => {
  await broker.close()
  rmSync(files, { recursive: true })
})

interface Ran {
  readonly code: number | null
  readonly out: string
}

function spawned(name: string, args: readonly string[]): ChildProcess {
  const at = ['--bootstrap-server', broker.bootstrap.join(',')]
  return spawn(given('KAFKA_SCRIPT'), ['tool', name, ...at, ...args], { stdio: 'pipe' })
}

function run(name: string, args: string, input = ''): Promise<Ran> {
  const child = spawned(name, args.split(' '))
  let out = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', chunk => {
      out += String(chunk)
    })
  }
  child.stdin?.end(input)
  return new Promise(resolve => child.on('close', code => resolve({ code, out })))
}

/** Runs a tool that must succeed; what it printed. */
async function tool(name: string, args: string, input?: string): Promise<string> {
  const { code, out } = await run(name, args, input)
  assert.equal(code, 0, `${name} ${args}: ${out}`)
  return out
}

async function newTopic(name: string, partitions = 6): Promise<string> {
  const topic = unique(name)
  const args = `--create --topic ${topic} --partitions ${partitions} --replication-factor 3`
  assert.match(await tool('topics', args), /Created topic/)
  return topic
}

function words(count: number): string {
  return Array.from({ length: count }, (_, index) => `w${index}\n`).join('')
}

test('broker-api-versions finds three brokers and can use all that they speak', async () => {
  const out = await tool('broker-api-versions', '')
  for (const [index, address] of broker.bootstrap.entries()) {
    assert(out.includes(`${address} (id: ${index + 1}`), out)
  }
  assert.match(out, /Produce\(0\): [\d to]+\[usable: \d+\]/)
  assert.match(out, /ConsumerGroupHeartbeat\(68\): 0 to 1 \[usable: 1\]/)
  // The controller's own are listed, and a client that doesn't know them passes over them: so do all of this folder.
  for (let key = 20_480; key <= 20_485; key++) assert(out.includes(`UNKNOWN(${key}): 0`), out)
})

test('topics are created, described, grown, listed and deleted', async () => {
  const topic = await newTopic('topic', 3)
  const described = await tool('topics', `--describe --topic ${topic}`)
  assert.match(described, /PartitionCount: 3\s+ReplicationFactor: 3/)
  const leaders = [...described.matchAll(/Leader: (\d+)/g)].map(([, leader]) => leader)
  assert.deepEqual(
    leaders.toSorted((a, b) => Number(a) - Number(b)),
    ['1', '2', '3']
  )
  await tool('topics', `--alter --topic ${topic} --partitions 5`)
  assert.match(await tool('topics', `--describe --topic ${topic}`), /PartitionCount: 5/)
  assert((await tool('topics', '--list')).split('\n').includes(topic))
  const again = await run('topics', `--create --topic ${topic}`)
  assert.match(again.out, /already exists/)
  assert.notEqual(again.code, 0)
  await tool('topics', `--delete --topic ${topic}`)
  assert(!(await tool('topics', '--list')).split('\n').includes(topic))
})

test('configs of a topic are set, shown and deleted; of brokers and groups shown', async () => {
  const topic = await newTopic('configured', 1)
  const of = `--entity-type topics --entity-name ${topic}`
  await tool('configs', `--alter ${of} --add-config retention.ms=123456,cleanup.policy=compact`)
  const set = await tool('configs', `--describe ${of}`)
  assert.match(set, /retention\.ms=123456/)
  assert.match(set, /cleanup\.policy=compact/)
  await tool('configs', `--alter ${of} --delete-config retention.ms`)
  assert.doesNotMatch(await tool('configs', `--describe ${of}`), /retention\.ms/)
  const wrong = await run('configs', `--alter ${of} --add-config retention.ms=soon`)
  assert.notEqual(wrong.code, 0)
  const all = await tool('configs', '--describe --entity-type brokers --entity-name 1 --all')
  assert.match(all, /All configs for broker 1/)
})

test('get-offsets tells ends, beginnings and offsets by time', async () => {
  const topic = await newTopic('offsets', 2)
  await tool('console-producer', `--topic ${topic}`, words(50))
  const sum = (out: string) =>
    [...out.matchAll(/:(\d+)$/gm)].reduce((total, [, offset]) => total + Number(offset), 0)
  assert.equal(sum(await tool('get-offsets', `--topic ${topic}`)), 50)
  assert.equal(sum(await tool('get-offsets', `--topic ${topic} --time earliest`)), 0)
  assert.equal(sum(await tool('get-offsets', `--topic ${topic} --time 1`)), 0)
  assert.match(await tool('get-offsets', `--topic ${topic} --time max-timestamp`), /:\d+/)
})

for (const protocol of protocols) {
  test(`console-producer's lines come out of console-consumer, once per group (${protocol})`, async () => {
    const [topic, group] = [await newTopic('console'), unique('group')]
    await tool('console-producer', `--topic ${topic} --compression-codec zstd`, words(100))
    const args = `--topic ${topic} --group ${group} --from-beginning --timeout-ms 8000`
    const property = `--command-property group.protocol=${protocol}`
    const out = await tool('console-consumer', `${args} --max-messages 100 ${property}`)
    const lines = out.split('\n').filter(line => /^w\d+$/.test(line))
    assert.deepEqual(lines.toSorted(), words(100).trim().split('\n').toSorted())
    await tool('console-producer', `--topic ${topic}`, 'more\n')
    const more = await run('console-consumer', `${args} --max-messages 1 ${property}`)
    assert.deepEqual(
      more.out.split('\n').filter(line => /^(w\d+|more)$/.test(line)),
      ['more']
    )
  })

  test(`consumer-groups lists, describes, resets and deletes (${protocol})`, async () => {
    const [topic, group] = [await newTopic('grouped', 2), unique('group')]
    await tool('verifiable-producer', `--topic ${topic} --max-messages 40 --repeating-keys 20`)
    const consumer = spawned(
      'verifiable-consumer',
      `--topic ${topic} --group-id ${group} --group-protocol ${protocol}`.split(' ')
    )
    await said(consumer, out => consumed(out) === 40 && /offsets_committed/.test(out))
    const live = await tool('consumer-groups', `--describe --group ${group} --members --verbose`)
    assert(live.includes(`${topic}:0,1`) || live.includes(`${topic}(0,1)`), live)
    assert.match(await tool('consumer-groups', `--describe --group ${group} --state`), /Stable/)
    const reset = `--group ${group} --topic ${topic} --reset-offsets --to-earliest`
    const refused = await run('consumer-groups', `${reset} --execute`)
    assert.match(refused.out, /inactive|current state is Stable/)
    const busy = await run('consumer-groups', `--delete --group ${group}`)
    assert.match(busy.out, /not empty|GroupNotEmpty/)
    await ended(consumer)

    assert((await tool('consumer-groups', '--list')).split('\n').includes(group))
    const listed = await tool('consumer-groups', '--list --state --type')
    const line = listed.split('\n').find(text => text.startsWith(group)) ?? ''
    assert.match(line.toLowerCase(), new RegExp(`${protocol}\\s+empty|empty\\s+${protocol}`))
    assert.deepEqual(await lags(group), [0, 0])
    await tool('consumer-groups', `${reset} --execute`)
    assert.equal(
      (await lags(group)).reduce((all, lag) => all + lag, 0),
      40
    )
    await tool(
      'consumer-groups',
      `--group ${group} --topic ${topic} --reset-offsets --shift-by 5 --execute`
    )
    assert.equal(
      (await lags(group)).reduce((all, lag) => all + lag, 0),
      30
    )
    await tool('consumer-groups', `--group ${group} --topic ${topic} --delete-offsets`)
    await tool('consumer-groups', `--delete --group ${group}`)
    assert(!(await tool('consumer-groups', '--list')).split('\n').includes(group))
  })

  test(`verifiable-consumers share what a verifiable-producer sends (${protocol})`, async () => {
    const [topic, group] = [await newTopic('verified'), unique('group')]
    const args = `--topic ${topic} --group-id ${group} --group-protocol ${protocol}`.split(' ')
    const [one, two] = [1, 2].map(() => spawned('verifiable-consumer', args))
    assert(one && two)
    const has = (out: string) =>
      out
        .trimEnd()
        .split('\n')
        .some(line => {
          const event = line.startsWith('{') ? (JSON.parse(line) as Verified) : {}
          return event.name === 'partitions_assigned' && (event.partitions?.length ?? 0) > 0
        })
    const counts = [0, 0]
    const both = [one, two].map((child, index) =>
      said(child, out => {
        counts[index] = consumed(out)
        return has(out) && (counts[0] ?? 0) + (counts[1] ?? 0) >= 3000
      })
    )
    const produced = await tool(
      'verifiable-producer',
      `--topic ${topic} --max-messages 3000 --throughput 1000`
    )
    assert.match(produced, /"name":"tool_data".*"sent":3000,"acked":3000|"acked":3000.*"sent":3000/)
    await Promise.race(both)
    await Promise.all([one, two].map(ended))
    await Promise.allSettled(both)
    assert((await lags(group)).every(lag => lag === 0))
  })
}

test('consumer-groups lists and describes a group that a controller leads, and leaves it alone', async () => {
  const [topic, group] = [await newTopic('led', 1), unique('led')]
  await tool('verifiable-producer', `--topic ${topic} --max-messages 40`)
  await using kafka = new Playhead({ bootstrap: broker.bootstrap })
  const consumer = kafka.consumer({ group, topics: [topic], protocol: 'controller' })
  let seen = 0
  while (seen < 40) seen += (await consumer.poll({ timeoutMs: 1_000 })).length
  // The next call says that what the one before gave is processed.
  await consumer.poll({ timeoutMs: 1 })
  await consumer.commit()
  assert((await tool('consumer-groups', '--list')).split('\n').includes(group))
  const live = await tool('consumer-groups', `--describe --group ${group} --members --verbose`)
  assert(live.includes(consumer.memberId ?? '?'), live)
  assert(live.includes(`${topic}:0`) || live.includes(`${topic}(0)`), live)
  assert.match(await tool('consumer-groups', `--describe --group ${group} --state`), /Stable/)
  assert.deepEqual(await lags(group), [0])
  const reset = `--group ${group} --topic ${topic} --reset-offsets --to-earliest --execute`
  assert.match((await run('consumer-groups', reset)).out, /inactive|current state is Stable/)
  await consumer.close()
})

test('producer-perf-test measures plain, idempotent and transactional sending; consumer-perf-test reads it', async () => {
  const topic = await newTopic('perf')
  const command = `--topic ${topic} --num-records 20000 --record-size 200 --throughput -1`
  assert.match(
    await tool(
      'producer-perf-test',
      `${command} --command-property acks=1 enable.idempotence=false`
    ),
    /20000 records sent/
  )
  assert.match(
    await tool('producer-perf-test', `${command} --command-property acks=all`),
    /20000 records sent/
  )
  const transactional = `--transactional-id ${unique('perf')} --transaction-duration-ms 100`
  assert.match(
    await tool('producer-perf-test', `${command} ${transactional}`),
    /20000 records sent/
  )
  const file = join(files, 'consumer.properties')
  writeFileSync(file, 'isolation.level=read_committed\n')
  const read = await tool(
    'consumer-perf-test',
    `--topic ${topic} --num-records 60000 --command-config ${file}`
  )
  assert.match(read, /\n.*, 60\d\d\d, /)
})

interface Verified {
  readonly name?: string
  readonly count?: number
  readonly partitions?: readonly unknown[]
}

/** How many records a verifiable consumer says it has. */
function consumed(out: string): number {
  return [
    ...out.matchAll(
      /"name":"records_consumed","count":(\d+)|"count":(\d+),"name":"records_consumed"/g
    )
  ].reduce((sum, [, a, b]) => sum + Number(a ?? b), 0)
}

function said(child: ChildProcess, so: (out: string) => boolean): Promise<string> {
  let out = ''
  return new Promise((resolve, reject) => {
    child.stdout?.on('data', chunk => {
      out += String(chunk)
      if (out.endsWith('\n') && so(out)) resolve(out)
    })
    child.on('close', () => reject(new Error(`it ended: ${out}`)))
  })
}

/** As Ctrl-C does. */
async function ended(child: ChildProcess): Promise<void> {
  const gone = new Promise(resolve => child.on('close', resolve))
  child.kill('SIGTERM')
  await gone
}

/** What is behind, by partition. */
async function lags(group: string): Promise<number[]> {
  const out = await tool('consumer-groups', `--describe --group ${group}`)
  const rows = out.split('\n').filter(line => line.startsWith(group))
  return rows.map(row => Number(row.split(/\s+/)[5]))
}
