/** A process of the crew: plays the plans it is sent. */
import type { Answer } from './crew.ts'
import type { Plan } from './plan/plan.ts'
import { run } from './run.ts'
import { forbidGlobals } from './world/forbid.ts'

forbidGlobals()

process.on('message', ({ plan, twice }: { plan: Plan; twice: boolean }) => {
  void play(plan, twice)
})

// Nobody is there any more to hear an answer.
process.on('disconnect', () => process.exit())

async function play(plan: Plan, twice: boolean): Promise<void> {
  const before = process.cpuUsage()
  const outcome = await run(plan)
  const { user, system } = process.cpuUsage(before)
  const again = twice ? (await run(plan)).hash : undefined
  const answer: Answer = {
    outcome: { ...outcome, marks: [...outcome.marks] },
    cpuMs: (user + system) / 1000,
    again
  }
  process.send?.(answer)
}
