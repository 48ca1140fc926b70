/** The embedded broker on its node, restarted with the disk that its last process left. */
import { PlayheadError } from '../../src/base/error.ts'
import { type BrokerOptions, type EmbeddedBroker, startBroker } from '../../src/broker/broker.ts'
import type { Storage } from '../world/store.ts'
import type { Program } from '../world/world.ts'
import type { Stage } from './stage.ts'
import { putTap, type Tap } from './tap.ts'

export const brokerNode = 'b'
const port = 9092

/** The running broker; undefined while there is none. */
export interface BrokerActor {
  readonly program: Program
  running: EmbeddedBroker | undefined
  /** The topics of the plan were made. */
  begun: boolean
}

export function bootstrapOf(brokers: number): string[] {
  return Array.from({ length: brokers }, (_, i) => `${brokerNode}:${port + i}`)
}

export function brokerActor(stage: () => Stage, disk: Storage, tap: Tap): BrokerActor {
  const actor: BrokerActor = {
    running: undefined,
    begun: false,
    program: async process => {
      const { plan, world } = stage()
      actor.running = undefined
      const { topics, brokers } = plan
      const options: BrokerOptions = {
        host: brokerNode,
        port,
        brokers,
        // Once only: what was deleted does not come back.
        topics: actor.begun
          ? {}
          : Object.fromEntries(topics.map(({ name, partitions }) => [name, partitions])),
        autoCreateTopics: false,
        groups: {
          sessionTimeoutMs: plan.sessionTimeoutMs,
          heartbeatIntervalMs: plan.heartbeatIntervalMs,
          minSessionTimeoutMs: 1
        }
      }
      putTap(process, tap)
      let broker: EmbeddedBroker
      try {
        const store = await disk.open(process.env)
        broker = await startBroker({ env: process.env, store }, options)
      } catch (error) {
        // With a full disk it does not come up; somebody starts it again.
        if (!(error instanceof PlayheadError && error.code === 'STORAGE_FAILED')) throw error
        return world.mark('the broker does not start: its disk is full')
      }
      if (process.dead) return
      actor.running = broker
      actor.begun = true
      if (process.incarnation > 1) world.mark('the broker is back')
    }
  }
  return actor
}
