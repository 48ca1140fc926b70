/** The main job from a shell: three terminals share a topic, and two of its partitions are rewound meanwhile. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Cli, playhead } from '../cli/playhead.ts'
import { kafka } from './cluster.ts'

const records = 120_000
const partitionCount = 6

interface Line {
  readonly partition: number
  readonly offset: number
}

/** What a terminal printed, in order. */
function linesOf(cli: Cli): Line[] {
  return cli.out
    .split('\n')
    .slice(0, -1)
    .map(line => JSON.parse(line) as Line)
}

describe('playhead, in a shell, on a real Kafka', () => {
  it('rewinds two partitions of a running group of three; the other four flow on undisturbed', async () => {
    const topic = kafka.uniqueName('cli')
    const group = kafka.uniqueName('cli-group')
    const { bootstrap } = kafka
    const run = async (args: string, input?: string): Promise<string> => {
      const { code, out, err } = await playhead(args, bootstrap, input)
      assert.equal(code, 0, err)
      return out
    }
    await run(`topics create ${topic} --partitions ${partitionCount}`)
    const input = Array.from({ length: records }, (_, i) => `key-${i}:line ${i}\n`).join('')
    await run(`produce ${topic} --key-separator :`, input)

    const terminals = Array.from(
      { length: 3 },
      () => new Cli(['consume', topic, '--group', group, '--json'], bootstrap)
    )
    const all = (): Line[] => terminals.flatMap(linesOf)
    const [first] = terminals
    await Promise.all(terminals.map(cli => cli.until(({ err }) => err.includes('assigned'))))
    await until(terminals, () => countLines(terminals) >= records)

    const plan = JSON.parse(await run(`rewind ${group} --topic ${topic} --to 2m --json`)) as {
      partitions: { owner: unknown; target: number }[]
    }
    assert.equal(plan.partitions.length, partitionCount)
    assert.ok(plan.partitions.every(p => p.owner !== null && p.target === 0))
    assert.equal(countLines(terminals), records, 'a plan changes nothing')

    const rewound = await run(`rewind ${group} --topic ${topic}:0,3 --to earliest --execute --json`)
    const result = JSON.parse(rewound) as {
      partitions: { partition: number; owner: object; from: number; to: number; ms: number }[]
    }
    assert.deepEqual(
      result.partitions.map(p => [p.partition, p.to]),
      [
        [0, 0],
        [3, 0]
      ]
    )
    assert.ok(result.partitions.every(p => p.owner !== null && p.from > 0 && p.ms >= 0))
    const again = result.partitions.reduce((sum, p) => sum + p.from, 0)
    await until(terminals, () => countLines(terminals) >= records + again)

    for (let partition = 0; partition < partitionCount; partition++) {
      const offsets = all()
        .filter(line => line.partition === partition)
        .map(line => line.offset)
      const once = Array.from({ length: Math.max(...offsets) + 1 }, (_, i) => i)
      const twice = partition === 0 || partition === 3
      assert.deepEqual(offsets, twice ? [...once, ...once] : once, `partition ${partition}`)
    }

    const [status] = JSON.parse(await run(`rewind status ${group} --json`)) as {
      partitions: { state: string }[]
    }[]
    assert.deepEqual(
      status?.partitions.map(p => p.state),
      ['applied', 'applied']
    )
    const undone = JSON.parse(await run(`rewind undo ${group} --json`)) as typeof result
    assert.deepEqual(
      undone.partitions.map(p => p.to),
      result.partitions.map(p => p.from)
    )
    for (const cli of terminals) cli.interrupt()
    for (const { code, err } of await Promise.all(terminals.map(cli => cli.ended))) {
      assert.equal(code, 0, err)
    }
    const lag = JSON.parse(await run(`groups lag ${group} --json`)) as { lag: number }[]
    assert.ok(lag.every(p => p.lag === 0))
    assert.ok(first)
  })
})

function countLines(terminals: readonly Cli[]): number {
  return terminals.reduce((sum, cli) => sum + cli.lines, 0)
}

/** Until what the terminals printed, together, is so. */
async function until(terminals: readonly Cli[], what: () => boolean): Promise<void> {
  while (!what()) await Promise.race(terminals.map(cli => cli.heard()))
}
