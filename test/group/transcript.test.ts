/**
 * Stories of KIP-848 groups as transcripts: a line that begins with '>' is what happens, the lines after it are what the
 * group answers and how it stands. Each block of transcripts/*.txt is told anew and compared. PLAYHEAD_UPDATE=1
 * writes them anew: then read the difference.
 */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { HeartbeatAnswer } from '../../src/group/consumer/heartbeat.ts'
import { type ConsumerEvent, consumerMachine } from '../../src/group/consumer/machine.ts'
import {
  type ConsumerFact,
  type ConsumerGroup,
  newConsumerGroup
} from '../../src/group/consumer/state.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import { Stage } from './stage.ts'

// The sources' folder: what runs is in build/.
const folder = join(import.meta.dirname, '../../../test/group/transcripts')

interface Actor {
  epoch: number
  topics: readonly string[] | null
  instanceId: string | null
  /** 'topic:0,1' */
  owns: string
}

class Play {
  readonly #stage = new Stage<ConsumerGroup, ConsumerEvent, ConsumerFact, HeartbeatAnswer>(
    consumerMachine,
    newConsumerGroup,
    ({ epoch }) => epoch
  )
  readonly #actors = new Map<string, Actor>()
  #ticket = 0

  /** What comes of one line. */
  tell(line: string): string[] {
    const [verb = '', who = '', ...rest] = line.split(' ')
    switch (verb) {
      case 'topic':
        if (this.#stage.topics.named(who)) this.#stage.topics.grow(who, Number(rest[0]))
        else this.#stage.topics.create(who, Number(rest[0]))
        this.#stage.tell({ kind: 'topics' })
        return [this.#group()]
      case 'drop':
        this.#stage.topics.delete(who)
        this.#stage.tell({ kind: 'topics' })
        return [this.#group()]
      case 'pass':
        this.#stage.nowMs += Number(who.replace('s', '')) * 1000
        this.#stage.tell({ kind: 'time' })
        return [this.#group()]
      case 'restart':
        this.#stage.restart()
        this.#stage.tell({ kind: 'loaded' })
        return [this.#group()]
      case 'join': {
        const instance = rest.indexOf('as')
        const instanceId = instance < 0 ? null : (rest[instance + 1] ?? null)
        const topics = instance < 0 ? rest : rest.slice(0, instance)
        this.#actors.set(who, { epoch: 0, topics, instanceId, owns: '' })
        return [this.#beat(who, 0), this.#group()]
      }
      case 'beat': {
        const actor = this.#actor(who)
        const owns = rest[0] === 'owns' ? (rest[1] ?? '') : actor.owns
        const epoch = rest[0] === 'at' ? Number(rest[1]) : actor.epoch
        return [this.#beat(who, epoch, owns), this.#group()]
      }
      case 'leave':
        return [this.#beat(who, rest[0] === 'for' ? -2 : -1), this.#group()]
      default:
        assert.fail(`what is ${line}?`)
    }
  }

  #actor(who: string): Actor {
    const actor = this.#actors.get(who)
    assert(actor, `who is ${who}?`)
    return actor
  }

  #beat(who: string, memberEpoch: number, owns = ''): string {
    const actor = this.#actor(who)
    const joins = memberEpoch === 0
    const decision = this.#stage.tell({
      kind: 'heartbeat',
      ticket: ++this.#ticket,
      version: 1,
      client: { id: who, host: '/here' },
      request: {
        groupId: 'g',
        memberId: who,
        memberEpoch,
        instanceId: actor.instanceId,
        rackId: null,
        rebalanceTimeoutMs: joins ? 30_000 : -1,
        subscribedTopicNames: joins ? actor.topics : null,
        subscribedTopicRegex: null,
        serverAssignor: null,
        topicPartitions: memberEpoch < 0 ? null : this.#parse(joins ? '' : owns)
      }
    })
    const answer = decision.effects.flatMap(effect =>
      effect.kind === 'answer' ? [effect.answer] : []
    )[0]
    assert(answer)
    if (answer.errorCode !== 0) return `  ${who} is told ${kafkaErrorName(answer.errorCode)}`
    actor.epoch = answer.memberEpoch
    const list = answer.assignment?.topicPartitions
    if (!list) return `  ${who} is in epoch ${actor.epoch}`
    actor.owns = this.#show(list)
    return `  ${who} is in epoch ${actor.epoch}, has ${actor.owns || 'nothing'}`
  }

  #parse(owns: string) {
    return owns
      .split(' ')
      .filter(Boolean)
      .map(one => {
        const [name = '', list = ''] = one.split(':')
        const topicId = this.#stage.topics.named(name)?.id ?? 'AAAAAAAAAAAAAAAAAAAAAA'
        return { topicId, partitions: list.split(',').filter(Boolean).map(Number) }
      })
  }

  #show(
    list: readonly { readonly topicId: string; readonly partitions: readonly number[] }[]
  ): string {
    return list
      .map(
        ({ topicId, partitions }) =>
          `${this.#stage.topics.withId(topicId)?.name ?? 'gone'}:${partitions.join()}`
      )
      .sort((a, b) => (a < b ? -1 : 1))
      .join(' ')
  }

  #group(): string {
    const { state } = this.#stage
    const members = [...state.members.values()].map(({ id, epoch, state: at, revoking }) => {
      const gives = revoking.size === 0 ? '' : ' revoking'
      return `${id}@${epoch}${at === 'unreleased' ? ' waiting' : gives}`
    })
    return `  ${consumerMachine.stateName(state)} in epoch ${state.epoch}${members.length > 0 ? `: ${members.join(', ')}` : ''}`
  }
}

for (const file of readdirSync(folder).filter(name => name.endsWith('.txt'))) {
  test(`the transcripts of ${file} are what happens`, () => {
    const path = join(folder, file)
    const written = readFileSync(path, 'utf8')
    const told: string[] = []
    let play = new Play()
    for (const line of written.split('\n')) {
      // A title begins a new story.
      if (line.startsWith('#')) play = new Play()
      if (!line.startsWith('  ')) told.push(line)
      if (line.startsWith('> ')) told.push(...play.tell(line.slice(2)))
    }
    const now = told.join('\n')
    if (process.env['PLAYHEAD_UPDATE'] === '1') writeFileSync(path, now)
    else assert.equal(now, written)
  })
}
