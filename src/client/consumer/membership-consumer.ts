/** How a KIP-848 member's one request is sent, and its topics, which come by id, are named. */
import {
  apply,
  checkInvariants,
  type ConsumerMember,
  type ConsumerMemberConfig,
  consumerMember,
  decide,
  type Fact
} from '../../group/member/consumer.ts'
import type { HeartbeatAnswer, HeartbeatRequest } from '../../group/member/consumer-words.ts'
import type { MemberEvent, Subscription } from '../../group/member/protocol.ts'
import { ConsumerGroupHeartbeat } from '../../protocol/api/consumer-group-heartbeat.ts'
import { heartbeatTimeoutMs, type MemberPort, type MembershipHost } from './membership.ts'
import { topicNames } from './topics.ts'

export type ConsumerEvent = MemberEvent<HeartbeatAnswer>

export function consumerPort(
  host: MembershipHost,
  config: ConsumerMemberConfig,
  subscription: Subscription
): MemberPort<ConsumerMember, ConsumerEvent, Fact, HeartbeatRequest> {
  const { cluster, group, lane, sessionTimeoutMs } = host
  const timeoutMs = heartbeatTimeoutMs(sessionTimeoutMs)
  return {
    initial: consumerMember(config, subscription),
    instanceId: config.instanceId,
    decide,
    apply,
    check: checkInvariants,
    wakeAt: ({ inFlight, wakeAt }) => (inFlight === null ? wakeAt : Infinity),
    intervalMs: ({ heartbeatIntervalMs }) => heartbeatIntervalMs,

    send(request, membership) {
      const call = cluster.send(
        ConsumerGroupHeartbeat,
        { groupId: group, ...request },
        { to: { group }, lane, timeoutMs }
      )
      call.response.then(
        ({ body }) => membership.tell({ on: 'answered', answer: body }),
        (error: unknown) => {
          if (membership.troubled(error)) membership.tell({ on: 'unanswered' })
        }
      )
    },

    async topics(ids) {
      const names = await topicNames(cluster, ids)
      return new Map([...names].map(([topicId, topic]) => [topicId, { topic, topicId }]))
    },

    // A heartbeat that says everything is due at once.
    doubt({ phase, subscription: same }) {
      return phase === 'member' ? { on: 'subscribed', subscription: same } : null
    }
  }
}
