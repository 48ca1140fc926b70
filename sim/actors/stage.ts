/** What all actors of a run share: the world, the plan, where the brokers are, and whether it is time to stop. */
import type { LivenessChecker } from '../checkers/liveness.ts'
import type { Plan } from '../plan/plan.ts'
import type { Process } from '../world/process.ts'
import { sleep, type World } from '../world/world.ts'
import type { Topics } from './topics.ts'

export interface Stage {
  readonly world: World
  readonly plan: Plan
  readonly bootstrap: readonly string[]
  readonly topics: Topics
  /** Nothing goes wrong any more. */
  healed: boolean
  /** Since the broker was started last, writes may have failed. */
  diskFailed: boolean
  /** Knows how far everybody is. */
  readonly liveness: LivenessChecker
  /** Nothing is sent any more. */
  quiet: boolean
  /** Actors make nothing new any more, and close. */
  stopping: boolean
  /** Calls so far: names them. */
  calls: number
}

/** Takes down a call that must settle within `deadlineMs`, and when it did. */
export async function mustSettle<T>(
  stage: Stage,
  process: Process,
  what: string,
  deadlineMs: number,
  work: () => Promise<T>
): Promise<T> {
  const call = `${what} ${++stage.calls}`
  stage.world.saw(process, { k: 'call', call, deadlineMs })
  try {
    return await work()
  } finally {
    stage.world.saw(process, { k: 'settled', call })
  }
}

/** In short steps, so that an actor stops soon after it is told to. */
export async function rest(stage: Stage, process: Process, ms: number): Promise<void> {
  let left = ms
  while (left > 0 && !stage.stopping) {
    const step = Math.min(left, 500)
    await sleep(stage.world, process, step)
    left -= step
  }
}
