/** Carries out the actions of a plan: what goes wrong, and what is done on purpose, each at its moment. */
import { PlayheadError } from '../src/base/error.ts'
import type { EmbeddedBroker } from '../src/broker/broker.ts'
import { type BrokerActor, brokerNode } from './actors/broker.ts'
import { askKeeper, askRewind } from './actors/rewinder.ts'
import type { Stage } from './actors/stage.ts'
import type { Action } from './plan/plan.ts'
import type { Storage } from './world/store.ts'

export function playActions(stage: Stage, broker: BrokerActor, disk: Storage): void {
  const { world, plan } = stage
  const from = world.clock.monotonic()
  for (const action of plan.actions) {
    world.at(from + action.atMs, () => {
      if (!stage.healed) play(stage, broker, disk, action)
    })
  }
}

function play(stage: Stage, broker: BrokerActor, disk: Storage, action: Action): void {
  const { world } = stage
  const later = (then: () => void) => {
    if ('forMs' in action) world.clock.after(action.forMs, then)
  }
  world.mark(`do: ${action.do}`)
  switch (action.do) {
    case 'crash':
      world.crash(action.node)
      return later(() => world.start(action.node))
    case 'power':
      world.losePower(action.node)
      return later(() => {
        world.restorePower(action.node)
        world.start(action.node)
      })
    case 'pause':
      world.pause(action.node)
      return later(() => world.resume(action.node))
    case 'slow':
      world.process(action.node)?.slow(action.eachMs)
      return later(() => world.process(action.node)?.slow(0))
    case 'cut':
      world.cut(action.from, action.to)
      return later(() => world.mend(action.from, action.to))
    case 'strand':
      return world.strand(action.node, action.forMs)
    case 'disk full':
      disk.failing = true
      stage.diskFailed = true
      return later(() => clearDisk(stage, disk))
    case 'move leader':
      return brokerDoes(stage, broker, running =>
        running.moveLeader(action.topic, action.partition, action.to)
      )
    case 'move coordinator':
      return brokerDoes(stage, broker, async running => {
        running.moveController(action.group, action.to)
      })
    case 'stop listener':
      return brokerDoes(stage, broker, running => running.stopListener(action.broker))
    case 'start listener':
      return brokerDoes(stage, broker, running => running.startListener(action.broker))
    case 'clock jump':
      return world.setClock(action.node, action.byMs)
    case 'create topic':
    case 'grow topic':
    case 'delete topic':
    case 'cut log':
      return askKeeper(stage, action)
    case 'rewind':
      return askRewind(stage, action)
    default:
      return action satisfies never
  }
}

function clearDisk(stage: Stage, disk: Storage): void {
  const { world } = stage
  if (stage.healed) return
  disk.failing = false
  // A write that failed is final for the process: somebody restarts it.
  stage.diskFailed = false
  world.crash(brokerNode)
  world.start(brokerNode)
}

/** Inside the broker's process; it may be down, paused, or without a disk to write to. */
export function brokerDoes(
  { world }: Stage,
  broker: BrokerActor,
  work: (running: EmbeddedBroker) => Promise<void>
): void {
  const { running } = broker
  const process = world.process(brokerNode)
  if (running === undefined || process === undefined) return
  process.enter(() => {
    work(running).catch((error: unknown) => {
      if (!process.dead && !(error instanceof PlayheadError)) world.uncaught(error)
    })
  })
}
