/** Who keeps the topics: creates, grows and deletes them, and cuts their logs, through a client like any other. */
import { PlayheadError } from '../../src/base/error.ts'
import { Admin } from '../../src/client/admin/admin.ts'
import { DeleteRecords } from '../../src/protocol/api/delete-records.ts'
import type { Cluster } from '../../src/rpc/cluster.ts'
import type { Action } from '../plan/plan.ts'
import type { Process } from '../world/process.ts'
import { mustSettle, type Stage } from './stage.ts'

type KeeperAction = Extract<
  Action,
  { readonly do: 'create topic' | 'grow topic' | 'delete topic' | 'cut log' }
>

const timeoutMs = 10_000

export async function keep(
  stage: Stage,
  process: Process,
  cluster: Cluster,
  action: KeeperAction
): Promise<void> {
  const { world } = stage
  const work = workOf(stage, process, cluster, action)
  if (work === undefined) return
  try {
    await mustSettle(stage, process, action.do, 2 * timeoutMs, work)
    world.mark(`done: ${action.do}`)
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    world.mark(`not done: ${action.do}: ${error.code}`)
  }
}

/** Undefined: there is nothing to do it to. What may have happened is said before it is asked for. */
function workOf(
  { world, topics, liveness }: Stage,
  process: Process,
  cluster: Cluster,
  action: KeeperAction
): (() => Promise<void>) | undefined {
  const admin = new Admin(cluster)
  const { topic } = action
  const there = topics.partitionsOf(topic)
  switch (action.do) {
    case 'create topic':
    case 'grow topic': {
      const { partitions } = action
      if (action.do === 'create topic' ? there > 0 : there === 0 || there >= partitions) return
      const added = Array.from({ length: partitions - there }, (_, i) => `${topic}:${there + i}`)
      world.saw(process, { k: 'created', tps: added })
      return async () => {
        if (there === 0) await admin.createTopics([{ topic, partitions }], { timeoutMs })
        else await admin.addPartitions(topic, partitions, { timeoutMs })
        // It may have been deleted while this was under way.
        if (there === 0 || topics.partitionsOf(topic) > 0) topics.made(topic, partitions)
      }
    }
    case 'delete topic':
      if (there === 0 || topics.sources.length === 1 || topic === topics.results) return
      topics.deleted(topic)
      world.saw(process, { k: 'topic.deleted', topic })
      return () => admin.deleteTopics([topic], { timeoutMs })
    case 'cut log': {
      const { partition } = action
      const tp = `${topic}:${partition}`
      const offset = Math.floor(action.to * liveness.endOf(tp))
      if (partition >= there || offset === 0) return
      world.saw(process, { k: 'cut', tp, start: offset })
      return async () => {
        const topics = [{ name: topic, partitions: [{ partitionIndex: partition, offset }] }]
        const to = { leader: { topic, partition } }
        await cluster.request(DeleteRecords, { topics, timeoutMs }, { to, timeoutMs })
      }
    }
    default:
      return action satisfies never
  }
}
