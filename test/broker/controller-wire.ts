/** Members of a controller's group by bare requests: one connection for what is answered soon, one for heartbeats. */
import assert from 'node:assert/strict'
import type { Env } from '../../src/base/env.ts'
import { ControllerHeartbeat } from '../../src/protocol/api/controller-heartbeat.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { RegisterConsumer } from '../../src/protocol/api/register-consumer.ts'
import { RewindConsumer } from '../../src/protocol/api/rewind-consumer.ts'
import { UnregisterConsumer } from '../../src/protocol/api/unregister-consumer.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import type { RequestOf } from '../../src/protocol/schema.ts'
import { Wire } from './wire.ts'

export type Wishes = Partial<RequestOf<typeof RegisterConsumer>>

export class LedMember {
  readonly group: string
  readonly wire: Wire
  readonly beats: Wire
  /** With every registration. */
  wishes: Wishes = {}
  memberId = ''
  generation = -1
  /** topic:partition → where it starts. */
  owned = new Map<string, number>()
  topicIds = new Map<string, string>()

  private constructor(group: string, wire: Wire, beats: Wire) {
    this.group = group
    this.wire = wire
    this.beats = beats
  }

  static async at(env: Env, address: string, group = 'g'): Promise<LedMember> {
    return new LedMember(group, await Wire.connect(env, address), await Wire.connect(env, address))
  }

  /** The name of the error, or NONE. `kept`: 'topic:partition' each. */
  async register(wishes: Wishes = {}, kept: readonly string[] | null = null): Promise<string> {
    const { group: groupId, memberId, generation: generationId } = this
    const byTopic = new Map<string, number[]>()
    for (const key of kept ?? []) {
      const [topic = '', partition = ''] = key.split(':')
      const topicId = this.topicIds.get(topic) ?? ''
      byTopic.set(topicId, [...(byTopic.get(topicId) ?? []), Number(partition)])
    }
    const answer = await this.wire.ask(RegisterConsumer, 0, {
      groupId,
      memberId,
      generationId,
      registerTimeoutMs: 5_000,
      topics: ['t'],
      kept: kept && [...byTopic].map(([topicId, partitions]) => ({ topicId, partitions })),
      ...this.wishes,
      ...wishes
    })
    if (answer.errorCode === 0) {
      this.memberId = answer.memberId
      this.generation = answer.generationId
      this.owned = new Map()
      for (const { topic, topicId, partitions } of answer.partitions) {
        this.topicIds.set(topic, topicId)
        for (const { partition, offset } of partitions) {
          this.owned.set(`${topic}:${partition}`, offset)
        }
      }
    }
    return kafkaErrorName(answer.errorCode)
  }

  /** The name of the error, or NONE, and the partitions that are rewound. */
  async beat(maxWaitMs = 0): Promise<{ code: string; rewound: string[] }> {
    const { group: groupId, memberId, generation: generationId } = this
    const answer = await this.beats.ask(ControllerHeartbeat, 0, {
      groupId,
      memberId,
      generationId,
      maxWaitMs
    })
    const rewound = answer.rewound.flatMap(({ topic, partitions }) =>
      partitions.map(partition => `${topic}:${partition}`)
    )
    return { code: kafkaErrorName(answer.errorCode), rewound }
  }

  async commit(partition: number, offset: number, generation?: number): Promise<string> {
    const { group: groupId, memberId } = this
    const { topics } = await this.wire.ask(OffsetCommit, 9, {
      groupId,
      memberId,
      generationIdOrMemberEpoch: generation ?? this.generation,
      topics: [
        {
          name: 't',
          partitions: [
            { partitionIndex: partition, committedOffset: offset, committedMetadata: '' }
          ]
        }
      ]
    })
    return kafkaErrorName(topics[0]?.partitions[0]?.errorCode ?? -1)
  }

  async leave(): Promise<string> {
    const { group: groupId, memberId, generation: generationId } = this
    const { errorCode } = await this.wire.ask(UnregisterConsumer, 0, {
      groupId,
      memberId,
      generationId
    })
    return kafkaErrorName(errorCode)
  }

  /** Ends both connections at once, and hard. */
  abort(): void {
    this.wire.abort()
    this.beats.abort()
  }

  async close(): Promise<void> {
    await this.wire.close()
    await this.beats.close()
  }
}

/** As a tool: of the topic t. */
export async function rewindTo(
  wire: Wire,
  targets: { readonly [partition: number]: number },
  more: Partial<RequestOf<typeof RewindConsumer>> = {}
) {
  const partitions = Object.entries(targets).map(([partition, offset]) => {
    return { partition: Number(partition), offset }
  })
  const answer = await wire.ask(RewindConsumer, 0, {
    groupId: 'g',
    timeoutMs: 5_000,
    offsets: [{ topic: 't', partitions }],
    ...more
  })
  return { ...answer, code: kafkaErrorName(answer.errorCode) }
}

export async function committedOf(wire: Wire, partition: number, group = 'g'): Promise<number> {
  const answer = await wire.ask(OffsetFetch, 8, {
    groups: [{ groupId: group, topics: [{ name: 't', partitionIndexes: [partition] }] }],
    requireStable: false
  })
  const found = answer.groups[0]?.topics[0]?.partitions[0]
  assert(found)
  return found.committedOffset
}
