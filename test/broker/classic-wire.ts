/** Members of classic groups, by bare requests: what they say is up to the test. */
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'
import { LeaveGroup } from '../../src/protocol/api/leave-group.ts'
import { SyncGroup } from '../../src/protocol/api/sync-group.ts'
import { codec } from '../../src/protocol/codec.ts'
import { ConsumerProtocolSubscription } from '../../src/protocol/embedded/subscription.ts'
import { kafkaErrorName } from '../../src/protocol/errors.ts'
import type { RequestOf, ResponseOf } from '../../src/protocol/schema.ts'
import { Writer } from '../../src/protocol/writer.ts'
import type { Wire } from './wire.ts'

/** What a consumer says when it joins. */
export function subscription(topics: readonly string[]): Buffer {
  const writer = new Writer()
  writer.int16(1)
  codec(ConsumerProtocolSubscription, 1).write(writer, { topics })
  return writer.join()
}

/** A member by a connection of its own, as its JoinGroup waits for the others. */
export class Classic {
  readonly wire: Wire
  readonly group: string
  readonly protocols: RequestOf<typeof JoinGroup>['protocols']
  readonly instanceId: string | null
  id = ''
  generation = -1

  constructor(wire: Wire, group: string, topic: string, instanceId: string | null = null) {
    this.wire = wire
    this.group = group
    this.protocols = [{ name: 'range', metadata: subscription([topic]) }]
    this.instanceId = instanceId
  }

  async join(
    body: Partial<RequestOf<typeof JoinGroup>> = {},
    version = 9
  ): Promise<ResponseOf<typeof JoinGroup>> {
    const ask = () =>
      this.wire.ask(JoinGroup, version, {
        groupId: this.group,
        sessionTimeoutMs: 10_000,
        rebalanceTimeoutMs: 10_000,
        memberId: this.id,
        groupInstanceId: this.instanceId,
        protocolType: 'consumer',
        protocols: this.protocols,
        ...body
      })
    let answer = await ask()
    if (kafkaErrorName(answer.errorCode) === 'MEMBER_ID_REQUIRED') {
      this.id = answer.memberId
      answer = await ask()
    }
    if (answer.errorCode === 0) {
      this.id = answer.memberId
      this.generation = answer.generationId
    }
    return answer
  }

  async sync(
    assignments: Readonly<Record<string, string>> = {},
    body: Partial<RequestOf<typeof SyncGroup>> = {}
  ): Promise<string> {
    const answer = await this.wire.ask(SyncGroup, 5, {
      groupId: this.group,
      generationId: this.generation,
      memberId: this.id,
      groupInstanceId: this.instanceId,
      protocolType: 'consumer',
      protocolName: 'range',
      assignments: Object.entries(assignments).map(([memberId, text]) => ({
        memberId,
        assignment: Buffer.from(text)
      })),
      ...body
    })
    return answer.errorCode === 0 ? answer.assignment.toString() : kafkaErrorName(answer.errorCode)
  }

  async beat(body: Partial<RequestOf<typeof Heartbeat>> = {}): Promise<string> {
    const {
      group: groupId,
      generation: generationId,
      id: memberId,
      instanceId: groupInstanceId
    } = this
    const answer = await this.wire.ask(Heartbeat, 4, {
      groupId,
      generationId,
      memberId,
      groupInstanceId,
      ...body
    })
    return kafkaErrorName(answer.errorCode)
  }

  async leave(): Promise<string[]> {
    const members = [{ memberId: this.id, groupInstanceId: this.instanceId }]
    const answer = await this.wire.ask(LeaveGroup, 5, { groupId: this.group, members })
    return [answer.errorCode, ...answer.members.map(({ errorCode }) => errorCode)].map(
      kafkaErrorName
    )
  }
}
