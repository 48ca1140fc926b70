/**
 * The stories of the controller's protocol. Each test/controller/*.txt is a script and what came of it: `> ` is a
 * command, `#` a remark, everything else is what the controller answered. UPDATE=1 writes them anew; read the diff.
 */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { unsettled } from '../../src/group/offsets/offsets.ts'
import { endOf, sequenceOf } from '../../src/protocol/embedded/rewind-envelope.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { Stage, type Target } from './stage.ts'

// Tests run from build/: the stories lie beside their source.
const folder = join(import.meta.dirname, '../../../test/controller')

describe('stories of a controller', () => {
  for (const file of readdirSync(folder).filter(name => name.endsWith('.txt'))) {
    const path = join(folder, file)
    const story = readFileSync(path, 'utf8')
    it(`${file}: ${story.split('\n')[0]?.slice(2)}`, () => {
      const played = play(story)
      if (process.env['UPDATE'] === '1') writeFileSync(path, played)
      else assert.equal(story, played)
    })
  }
})

function play(story: string): string {
  const stage = new Stage()
  const played: string[] = []
  for (const line of story.trimEnd().split('\n')) {
    if (line.startsWith('#') || line === '') played.push(line)
    if (!line.startsWith('> ')) continue
    played.push(line)
    const [command = '', ...words] = line.slice(2).split(' ')
    const said = perform(stage, command, words)
    played.push(...[...said, ...stage.lines.splice(0)].map(one => `  ${one}`))
  }
  return `${played.join('\n')}\n`
}

/** What a command itself has to show. */
function perform(stage: Stage, command: string, words: readonly string[]): readonly string[] {
  const [first = '', ...rest] = words
  const options = new Map(rest.map(word => cut(word, '=')))
  const list = (name: string) => options.get(name)?.split(',').filter(Boolean)
  const number = (name: string) => (options.has(name) ? Number(options.get(name)) : undefined)
  switch (command) {
    case 'topic':
      stage.topic(first, number('partitions') ?? 1, number('end') ?? 100)
      return []
    case 'delete':
      stage.deleteTopic(first)
      return []
    case 'truncate': {
      const [topic, partition] = cut(first, ':')
      const log = stage.topics.get(topic)?.logs[Number(partition)]
      if (log !== undefined) log.start = number('start') ?? log.start
      return []
    }
    case 'register':
      stage.register(first, {
        topics: list('topics') ?? [],
        pattern: options.get('pattern') ?? null,
        instance: options.get('instance') ?? null,
        kept: keptOf(stage, first, options.get('keeps')),
        ...given('startFrom', from(options.get('from'))),
        ...given('capacity', number('capacity')),
        ...(options.has('member') ? { memberId: options.get('member') ?? '' } : {}),
        ...given('generation', number('generation'))
      })
      return []
    case 'heartbeat':
      stage.heartbeat(first, number('wait') ?? 0, number('generation'))
      return []
    case 'rewind':
      stage.rewind(options.get('by') ?? null, targets(first, options), number('timeout') ?? 5_000)
      return []
    case 'cancel': {
      const which = targets(first, new Map()).map(target => ({
        ...target,
        offset: -3,
        rewindId: number('id') ?? 0
      }))
      stage.rewind(null, which, number('timeout') ?? 5_000)
      return []
    }
    case 'commit': {
      const [target] = targets(rest[0] ?? '', new Map())
      if (target === undefined) throw new Error(`commit what? ${rest[0]}`)
      const [id, over] = cut(options.get('mark') ?? '', '+')
      const mark = id === '' ? undefined : sequenceOf(Number(id))
      const code = stage.commit(first, target, {
        ...given('epoch', number('generation')),
        ...given('producer', number('tx')),
        mark: mark !== undefined && over !== '' ? endOf(mark) : mark
      })
      if (code === 0 && options.has('tx')) return ['to be committed']
      return [code === 0 ? 'committed' : `refused: ${kafkaErrorName(code)}`]
    }
    case 'end':
      stage.end(Number(cut(first, '=')[1]), rest[0] === 'commit')
      return []
    case 'leave':
      stage.leave(first)
      return []
    case 'disconnect':
      stage.disconnect(first)
      return []
    case 'pass':
      stage.advance(Number(first))
      return []
    case 'restart':
      stage.restart()
      return []
    case 'show':
      return show(stage)
    default:
      throw new Error(`no such command: ${command}`)
  }
}

function keptOf(stage: Stage, name: string, said: string | undefined): readonly string[] | null {
  if (said === undefined) return null
  if (said === 'all') return [...stage.actor(name).owned.keys()]
  return said.split(',').filter(Boolean)
}

/** orders:0=10,orders:1=latest; a window of a replay by until= and then=. */
function targets(said: string, options: ReadonlyMap<string, string>): readonly Target[] {
  return said.split(',').map(one => {
    const [at, offset] = cut(one, '=')
    const [topic, partition] = cut(at, ':')
    const number = offset === 'latest' ? -1 : offset === 'earliest' ? -2 : Number(offset)
    return {
      topic,
      partition: Number(partition),
      offset: number,
      ...given('until', options.has('until') ? Number(options.get('until')) : undefined),
      ...given('resume', options.has('then') ? Number(options.get('then')) : undefined)
    }
  })
}

function from(said: string | undefined): number | undefined {
  return said === undefined ? undefined : ['earliest', 'latest', 'none'].indexOf(said)
}

function given<K extends string>(name: K, value: number | undefined): { [N in K]?: number } {
  return value === undefined ? {} : ({ [name]: value } as { [N in K]?: number })
}

function cut(word: string, at: string): [string, string] {
  const index = word.indexOf(at)
  return index < 0 ? [word, ''] : [word.slice(0, index), word.slice(index + 1)]
}

/** The group as it stands. */
function show({ group, topics }: Stage): readonly string[] {
  const state = group.members.size === 0 ? 'empty' : group.round === null ? 'stable' : 'gathering'
  const lines = [`group: ${state}, generation ${group.head.generation}`]
  for (const { name, id, partitionCount } of topics.values()) {
    for (let partition = 0; partition < partitionCount; partition++) {
      const owner = group.owners.get(id)?.get(partition)
      const lease = group.members
        .get(owner ?? '')
        ?.leases.get(id)
        ?.get(partition)
      const rewind = group.rewinds.get(id)?.get(partition)
      const kind =
        lease === undefined
          ? unsettled(group.offsets, name, partition)
            ? 'held by a transaction'
            : 'free'
          : lease.moved
            ? `recalled from ${owner}, as it moves`
            : rewind?.state === 'waiting'
              ? `recalled from ${owner}, as it is rewound`
              : `granted to ${owner}`
      const committed = group.offsets.committed.get(name)?.get(partition)?.offset
      const at = committed === undefined ? '' : `, committed ${committed}`
      const to =
        rewind === undefined ? '' : `, rewind ${rewind.id} to ${rewind.target} ${rewind.state}`
      lines.push(`${name}:${partition} ${kind}${at}${to}`)
    }
  }
  return lines
}
