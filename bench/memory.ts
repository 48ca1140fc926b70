/**
 * The most memory that a client takes, seen from outside: each case is a process of its own, whose VmHWM (the peak of its
 * resident set, Linux) is read when it has done its work. The options are the defaults; the broker is the embedded one,
 * with a backlog on disk.
 *
 *   npm run bench -- memory [--gigabytes 1] [--seconds 15]
 *
 * slow     a handler that takes 20 ms a record, in front of the backlog, for so many seconds
 * paused   the same with half of the partitions paused
 * quick    the whole backlog, a record at a time
 * polite   sends as much as the backlog, a thousand at a time, while the broker keeps its answers for 100 ms each
 * flood    the same without ever waiting for an answer
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { Broker } from '../src/broker.ts'
import { Playhead } from '../src/index.ts'

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    gigabytes: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '15' }
  }
})
const topic = 'backlog'
/** What is sent goes there, so that the backlog stays as it is. */
const sink = 'sink'
const partitions = 6
const valueBytes = 1000
const seconds = Number(options.seconds)
const recordCount = Math.ceil((Number(options.gigabytes) * 1e9) / valueBytes)

/** What each case does in its own process; resolves to what it has to say. */
const cases: Record<string, (kafka: Playhead) => Promise<string>> = {
  slow: kafka => slowly(kafka, 0),
  paused: kafka => slowly(kafka, partitions / 2),
  quick: async kafka => {
    let count = 0
    const consumer = kafka.consumer({ group: 'quick', topics: [topic] })
    for await (const record of consumer) {
      if (record.value !== null && ++count === recordCount) break
    }
    return `${count} records`
  },
  polite: kafka => send(kafka, true),
  flood: kafka => send(kafka, false)
}

async function send(kafka: Playhead, polite: boolean): Promise<string> {
  const producer = kafka.producer()
  const value = Buffer.alloc(valueBytes, 'x')
  let refused = 0
  let sent = 0
  for (let next = 0; next < recordCount; next += 1000) {
    const calls = Array.from({ length: 1000 }, () =>
      producer.send(sink, { value }).then(
        () => void sent++,
        () => void refused++
      )
    )
    if (polite) await Promise.all(calls)
    // As an application that reads its input from somewhere: a turn of the event loop now and then.
    else await new Promise(resolve => setImmediate(resolve))
  }
  await producer.flush()
  await producer.close()
  return `${sent} sent, ${refused} refused as QUEUE_FULL`
}

async function slowly(kafka: Playhead, paused: number): Promise<string> {
  const consumer = kafka.consumer({ group: `slow-${paused}`, topics: [topic] })
  consumer.on('assigned', () =>
    consumer.pause(Array.from({ length: paused }, (_, partition) => ({ topic, partition })))
  )
  let count = 0
  const stop = AbortSignal.timeout(seconds * 1000)
  await consumer.run(
    async () => {
      count++
      await new Promise(resolve => setTimeout(resolve, 20))
    },
    { signal: stop }
  )
  return `${count} records handled`
}

/** In the broker's process. */
async function serve(dataDir: string): Promise<void> {
  const broker = await Broker.start({
    dataDir,
    durability: 'os',
    topics: { [topic]: partitions, [sink]: partitions }
  })
  broker.control.on('Produce', { topic: sink }, { delayMs: 100 })
  console.log(broker.bootstrap.join())
}

async function fill(bootstrap: string[]): Promise<void> {
  const kafka = new Playhead({ bootstrap })
  const producer = kafka.producer()
  const value = Buffer.alloc(valueBytes, 'x')
  for (let sent = 0; sent < recordCount; sent += 10_000) {
    const calls = Array.from({ length: 10 }, (_, call) =>
      producer.sendMany(
        topic,
        Array.from({ length: 1000 }, (_, i) => ({ value, partition: (i + call) % partitions }))
      )
    )
    await Promise.all(calls)
  }
  await producer.close()
  await kafka.close()
}

/** The peak of this process so far, in MB. */
function peak(): number {
  const kilobytes = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return (Number(kilobytes) * 1024) / 1e6
}

async function main(): Promise<void> {
  const script = process.argv[1] ?? ''
  const dir = mkdtempSync(join(tmpdir(), 'playhead-memory-'))
  const broker = spawn(process.execPath, [script, 'serve', dir], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  try {
    const [bootstrap] = (await once(createInterface(broker.stdout), 'line')) as [string]
    await fill(bootstrap.split(','))
    console.log(
      `Node ${process.version}, a backlog of ${recordCount} records, ${valueBytes} B each`
    )
    for (const name of Object.keys(cases)) {
      const child = fork(script, ['case', name, bootstrap, ...process.argv.slice(2)])
      const [said] = (await once(child, 'message')) as [string]
      console.log(`${name.padEnd(8)} ${said}`)
      child.kill()
    }
  } finally {
    broker.kill()
    await once(broker, 'exit')
    rmSync(dir, { recursive: true })
  }
}

const [command, name = '', bootstrap = ''] = positionals
if (command === 'serve') await serve(name)
else if (command === 'case') {
  const before = peak()
  const kafka = new Playhead({ bootstrap: bootstrap.split(',') })
  const said = await cases[name]?.(kafka)
  process.send?.(`peak ${peak().toFixed(0)} MB (${before.toFixed(0)} at its start): ${said}`)
} else await main()
