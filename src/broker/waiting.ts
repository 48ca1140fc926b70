/**
 * A request that waits for something to read: until `bytes` more can be read of its partitions, one of them changes,
 * the time is up, a later request of its session comes, or nobody waits any more. Whatever comes first ends all of it, so nothing is left behind.
 */
import type { Clock } from '../base/env.ts'
import type { FetchSession } from './fetch-sessions.ts'
import type { Connection } from './handler.ts'
import type { Partition } from './partition.ts'

export interface Wait {
  readonly partitions: readonly Partition[]
  readonly bytes: number
  readonly maxWaitMs: number
  readonly session?: Pick<FetchSession, 'endWait'> | undefined
}

/** Resolves when it is worth looking again; true: for the last time. */
export function waitForData(wait: Wait, clock: Clock, connection: Connection): Promise<boolean> {
  return new Promise(resolve => {
    let missing = wait.bytes
    let ended = false
    const overtaken = () => end(true)
    const end = (last: boolean) => {
      if (ended) return
      ended = true
      if (wait.session?.endWait === overtaken) wait.session.endWait = undefined
      timer.cancel()
      for (const stop of stops) stop()
      resolve(last)
    }
    const timer = clock.after(wait.maxWaitMs, () => end(true))
    const arrived = (bytes: number) => {
      missing -= bytes
      if (missing <= 0) end(false)
    }
    if (wait.session !== undefined) wait.session.endWait = overtaken
    const stops = [
      connection.whenClosed(() => end(true)),
      ...wait.partitions.map(partition => partition.watch(arrived))
    ]
  })
}
