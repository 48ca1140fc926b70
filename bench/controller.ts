/**
 * Groups led by a controller, on the embedded broker.
 *
 *   npm run bench -- controller                          latency: from the call of `rewind` until the owner delivers the
 *                                                        first record from the target. Goal: median < 10 ms, p99 < 50 ms
 *   npm run bench -- controller latency [ROUNDS] [MS] [DIR]  the same, so many with so long between them (default 100,
 *                                                        600); with a broker that stores all in DIR, synced
 *   npm run bench -- controller scale [MEMBERS] [MS]     one group of so many light members (default 10,000, stable for
 *                                                        120,000 ms) over loopback, in several processes. Goals: rewind
 *                                                        of one partition <= 100 ms, of all <= 2 s, a round <= 10 s,
 *                                                        broker memory <= 2 GiB
 *   npm run bench -- controller scale 500 2000           the same, short
 *   npm run bench -- controller scale 10000 2000 DIR     the same with a broker that stores all it is told in DIR, synced
 *
 * With PLAYHEAD_BENCH_PROFILE=DIR the broker's CPU profiles of the phases are written there.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { Broker } from '../src/broker.ts'
import { Playhead } from '../src/index.ts'
import { ControllerListGroups } from '../src/protocol/api/controller-list-groups.ts'
import { RewindConsumer } from '../src/protocol/api/rewind-consumer.ts'
import { kafkaErrorName } from '../src/protocol/errors.ts'

const [mode = 'latency', ...options] = process.argv.slice(2)
if (mode === 'scale') {
  await scale(Number(options[0] ?? 10_000), Number(options[1] ?? 120_000), options[2] ?? '')
} else await latency(Number(options[0] ?? 100), Number(options[1] ?? 600), options[2])

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

async function latency(rounds: number, pauseMs: number, dataDir?: string): Promise<void> {
  await using broker = await Broker.start({ topics: { t: 1 }, dataDir })
  await using kafka = new Playhead({ bootstrap: broker.bootstrap })
  const producer = kafka.producer()
  await producer.sendMany(
    't',
    Array.from({ length: 100 }, (_, index) => ({ value: String(index) }))
  )
  const consumer = kafka.consumer({ group: 'g', topics: ['t'], protocol: 'controller' })
  let delivered = (_offset: number) => {}
  const read = async () => {
    for await (const { offset } of consumer) delivered(offset)
  }
  const reading = read()
  await new Promise<void>(resolve => {
    delivered = offset => {
      if (offset === 99) resolve()
    }
  })
  const admin = kafka.admin()
  const took: number[] = []
  const answered: number[] = []
  for (let round = 0; round < rounds; round++) {
    await new Promise(resolve => setTimeout(resolve, pauseMs))
    const plan = await admin.planRewind('g', { to: [{ topic: 't', partition: 0, offset: 90 }] })
    const at = performance.now()
    const first = new Promise<void>(resolve => {
      delivered = offset => {
        if (offset === 90) took.push(performance.now() - at)
        if (offset === 99) resolve()
      }
    })
    await admin.rewind(plan)
    answered.push(performance.now() - at)
    await first
  }
  say(`from call to first record, ms: ${quantiles(took)}`)
  say(`from call to its answer, ms:   ${quantiles(answered)}`)
  await consumer.close()
  await reading
  await producer.close()
}

function quantiles(values: number[]): string {
  const sorted = values.slice(5).sort((one, other) => one - other)
  const at = (share: number) => (sorted[Math.floor((sorted.length - 1) * share)] ?? 0).toFixed(2)
  return `median ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, max ${at(1)} (of ${sorted.length})`
}

interface CrewReport {
  readonly cpuMs: number
  readonly members: number
  readonly partitions: number
  readonly registered: number
  readonly heartbeats: number
  readonly rewound: number
  readonly errors: readonly (readonly [number, number])[]
}

interface BrokerReport {
  readonly rssMb: number
  readonly heapMb: number
  readonly cpuMs: number
}

async function scale(members: number, stableMs: number, dataDir: string): Promise<void> {
  const brokerProcess = child('broker', [members, members, dataDir])
  const { bootstrap } = (await message(brokerProcess)) as { bootstrap: string[] }
  const port = (bootstrap[0] ?? '').split(':')[1] ?? ''
  await using kafka = new Playhead({ bootstrap, requestTimeoutMs: 120_000 })
  const processes = Math.min(4, Math.ceil(members / 250))
  const share = Math.ceil(members / processes)
  const joining = performance.now()
  const crews = Array.from({ length: processes }, (_, index) => {
    return child('crew', [port, Math.min(share, members - index * share), 5_000])
  })
  try {
    await profiled(brokerProcess, 'join', () =>
      until(async () => {
        const now = await group(kafka)
        const held = await owned(crews)
        const said = `${now.members.length} members hold ${held} partitions, ${now.state}`
        say(`  ${since(joining)}: ${said}, generation ${now.generationId}`)
        return now.state === 'Stable' && now.members.length === members && held === members
      })
    )
    say(`${members} members joined one by one and share ${members} partitions: ${since(joining)}`)
    await report(brokerProcess, crews)

    const before = await total(crews)
    await new Promise(resolve => setTimeout(resolve, stableMs))
    const after = await total(crews)
    const rounds = after.registered - before.registered
    say(
      `stable for ${stableMs / 1000} s: ${rounds} registrations, ${after.heartbeats - before.heartbeats} heartbeats`
    )
    await report(brokerProcess, crews)

    for (let round = 0; round < 5; round++) await rewindOf(kafka, [round], 'one partition')
    const all = Array.from({ length: members }, (_, index) => index)
    await profiled(brokerProcess, 'rewind', async () => {
      for (let round = 0; round < 5; round++) await rewindOf(kafka, all, `${members} partitions`)
    })
    await report(brokerProcess, crews)

    const { registered } = await total(crews)
    const round = performance.now()
    const more = child('crew', [port, 1, 5_000])
    await profiled(brokerProcess, 'round', () =>
      until(async () => {
        const now = await total([...crews, more])
        return now.registered >= registered + members + 1 && (await group(kafka)).state === 'Stable'
      })
    )
    say(`a full round, as one more joins: ${since(round)}`)
    await report(brokerProcess, [...crews, more])
    more.disconnect()
  } finally {
    for (const one of [...crews, brokerProcess]) one.disconnect()
  }
}

async function rewindOf(kafka: Playhead, partitions: number[], what: string): Promise<void> {
  const { controller } = await group(kafka)
  const at = performance.now()
  const { errorCode } = await kafka.cluster.request(
    RewindConsumer,
    {
      groupId: 'g',
      timeoutMs: 60_000,
      offsets: [{ topic: 't', partitions: partitions.map(partition => ({ partition, offset: 0 })) }]
    },
    { to: { node: controller.nodeId } }
  )
  say(`rewind of ${what}: ${since(at)} (${kafkaErrorName(errorCode)})`)
}

async function group(kafka: Playhead) {
  const { groups } = await kafka.cluster.request(ControllerListGroups, { groupId: 'g' })
  const [found] = groups
  if (found === undefined) throw new Error('the controller knows no group')
  return found
}

async function report(broker: ChildProcess, crews: readonly ChildProcess[]): Promise<void> {
  const { rssMb, heapMb, cpuMs } = (await ask(broker)) as BrokerReport
  const { errors, registered, heartbeats, cpuMs: theirs } = await total(crews)
  const wrong = errors.map(([code, count]) => `${count} ${kafkaErrorName(code)}`).join(', ')
  const size = `${rssMb.toFixed(0)} MiB (heap ${heapMb.toFixed(0)})`
  say(`  broker so far: ${size}, CPU ${(cpuMs / 1000).toFixed(1)} s`)
  say(
    `  members: ${registered} registrations, ${heartbeats} heartbeats, CPU ${(theirs / 1000).toFixed(1)} s, ` +
      `errors: ${wrong || 'none'}`
  )
}

/** Runs a phase; the broker writes a CPU profile of it when one is wanted. */
async function profiled(
  broker: ChildProcess,
  phase: string,
  run: () => Promise<void>
): Promise<void> {
  const dir = process.env['PLAYHEAD_BENCH_PROFILE']
  if (dir !== undefined) await ask(broker, 'profile')
  await run()
  if (dir !== undefined) await ask(broker, `profile ${join(dir, `${phase}.cpuprofile`)}`)
}

async function owned(crews: readonly ChildProcess[]): Promise<number> {
  return (await total(crews)).partitions
}

async function total(crews: readonly ChildProcess[]): Promise<CrewReport> {
  const all = (await Promise.all(crews.map(crew => ask(crew)))) as CrewReport[]
  const sum = (
    name: 'cpuMs' | 'members' | 'partitions' | 'registered' | 'heartbeats' | 'rewound'
  ) => all.reduce((so, one) => so + one[name], 0)
  return {
    cpuMs: sum('cpuMs'),
    members: sum('members'),
    partitions: sum('partitions'),
    registered: sum('registered'),
    heartbeats: sum('heartbeats'),
    rewound: sum('rewound'),
    errors: all.flatMap(({ errors }) => errors)
  }
}

function child(name: string, args: readonly (string | number)[]): ChildProcess {
  const file = join(import.meta.dirname, 'controller', `${name}.js`)
  return fork(file, args.map(String), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
}

function ask(of: ChildProcess, word = 'report'): Promise<unknown> {
  const answer = message(of)
  of.send(word)
  return answer
}

function message(of: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => reject(new Error(`a process ended: ${code}`))
    of.once('exit', ended)
    of.once('message', answer => {
      of.off('exit', ended)
      resolve(answer)
    })
  })
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 300_000
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error('it did not come about within five minutes')
    // The controller's list of ten thousand members is a megabyte.
    await new Promise(resolve => setTimeout(resolve, 1_000))
  }
}

function since(at: number): string {
  return `${(performance.now() - at).toFixed(0)} ms`
}
