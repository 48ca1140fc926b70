/** Plans that once broke a rule, shrunk: each is played again, and none may break one. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Plan } from './plan/plan.ts'
import { report } from './report.ts'
import { run } from './run.ts'

export const seedsDirectory = 'sim/seeds'

export interface Kept {
  readonly file: string
  /** What was wrong with the product. */
  readonly bug: string
  readonly rule: string
  /** What the simulation said. */
  readonly message: string
  readonly plan: Plan
}

export function keptPlans(directory = seedsDirectory): Kept[] {
  const files = readdirSync(directory).filter(name => name.endsWith('.json'))
  return files.toSorted().map(file => {
    const kept = JSON.parse(readFileSync(join(directory, file), 'utf8')) as Omit<Kept, 'file'>
    return { ...kept, bug: kept.bug ?? kept.message, file }
  })
}

/** True: every rule held in all of them. */
export async function playKept(say: (line: string) => void): Promise<boolean> {
  const all = keptPlans()
  let failed = 0
  for (const { file, bug, plan } of all) {
    const outcome = await run(plan)
    if (outcome.violation === undefined) {
      say(`holds  ${file}: ${bug}`)
      continue
    }
    failed++
    say(`${report(outcome)}\nBROKEN ${file}: ${bug}`)
    say(`replay: npm run sim -- --plan ${join(seedsDirectory, file)} --trace`)
  }
  say(`${all.length} kept plans, ${failed} broken`)
  return failed === 0
}
