/**
 * The group protocol of 2013 by hand, on an embedded broker: two members and a tool, each step a request.
 */
import { Playhead } from '../src/index.ts'
import { Broker } from '../src/broker.ts'
import {
  ControllerHeartbeat,
  ControllerListGroups,
  RegisterConsumer,
  RewindConsumer,
  UnregisterConsumer,
  kafkaErrorName
} from '../src/protocol.ts'

const group = 'by-hand'
await using broker = await Broker.start({ topics: { orders: 2 } })
await using kafka = new Playhead({ bootstrap: broker.bootstrap, clientId: 'by-hand' })
await kafka.producer().sendMany(
  'orders',
  Array.from({ length: 40 }, (_, n) => ({ value: `${n}`, partition: n % 2 }))
)

// Any broker says who leads the group.
const { groups } = await kafka.cluster.request(ControllerListGroups, { groupId: group })
const to = { node: groups[0]?.controller.nodeId ?? -1 }
say(`the controller is broker ${to.node}`)

/** A member, and what it was told last. Requests that wait at the broker have a connection of their own. */
function member(name: string) {
  let [memberId, generationId] = ['', -1]
  return {
    async register(): Promise<void> {
      const body = { groupId: group, memberId, generationId, registerTimeoutMs: 5_000 }
      const lane = `group:${name}` as const
      const answer = await kafka.cluster.request(
        RegisterConsumer,
        { ...body, topics: ['orders'] },
        { to, lane }
      )
      ;({ memberId, generationId } = answer)
      const starts = answer.partitions.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset }) => `${topic}[${partition}] from ${offset}`)
      )
      say(`${name} registered, generation ${generationId}: ${starts.join(', ') || 'nothing'}`)
    },
    /** The controller holds it until there is something to say. */
    async heartbeat(): Promise<void> {
      const body = { groupId: group, memberId, generationId, maxWaitMs: 5_000 }
      const lane = `wait:${name}` as const
      const { errorCode } = await kafka.cluster.request(ControllerHeartbeat, body, { to, lane })
      say(`${name} is told ${kafkaErrorName(errorCode)}`)
    },
    async leave(): Promise<void> {
      await kafka.cluster.request(UnregisterConsumer, { groupId: group, memberId }, { to })
      say(`${name} left`)
    }
  }
}

const [ann, bob] = [member('ann'), member('bob')]
await ann.register()
const annIsTold = ann.heartbeat()
const bobIsIn = bob.register() // answered when ann has registered again
await annIsTold
await Promise.all([ann.register(), bobIsIn])

// A tool rewinds one partition: its owner alone is told, registers, and starts again at 7.
const offsets = [{ topic: 'orders', partitions: [{ partition: 0, offset: 7 }] }]
const told = ann.heartbeat()
const body = { groupId: group, timeoutMs: 5_000, reason: 'an example', offsets }
const rewound = kafka.cluster.request(RewindConsumer, body, { to })
await told
await ann.register()
say(`the rewind: ${kafkaErrorName((await rewound).errorCode)}`)
await ann.leave()
await bob.leave()

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}
