/**
 * A mutant: a small wrong change of the product, a bug that some client had or a rule left out. It is a text in a
 * compiled file and what to put there instead, applied as the file is loaded: nothing is copied or compiled, and nothing
 * in the product knows of it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MemberPlan, Plan, ProducerPlan, WorldName } from '../plan/plan.ts'

export interface Mutant {
  readonly name: string
  /** What goes wrong, and where it was seen. */
  readonly about: string
  readonly edits: readonly Edit[]
  readonly worlds: readonly WorldName[]
  /** The rules that break, of which one is seen. */
  readonly rules: readonly string[]
  /** Where its seeds begin. */
  readonly base: string
  /** Seeds to try: a few times what it took when it was written. */
  readonly seeds: number
  /** What of each plan is not left to chance, where the sequence that shows it would be rare. */
  readonly focus?: Focus
}

export interface Edit {
  /** Below build/. */
  readonly file: string
  /** Is there once. */
  readonly find: string
  readonly replace: string
}

/** Put over what is drawn: over the plan, each of its members, and each of its producers. Actions come on top. */
export interface Focus extends Partial<Omit<Plan, 'wire' | 'members' | 'producers'>> {
  readonly wire?: Partial<Plan['wire']>
  readonly members?: Partial<MemberPlan>
  readonly producers?: Partial<ProducerPlan>
}

const folder = 'sim/mutants'

/** All that are written down, by file and in its order. */
export function readMutants(): readonly Mutant[] {
  return readdirSync(folder)
    .filter(file => file.endsWith('.json'))
    .sort()
    .flatMap(file => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Mutant[])
}

/** The code of `file` with the mutant's changes. Throws when a text is not there, or not once. */
export function mutated({ name, edits }: Mutant, file: string, code: string): string {
  let changed = code
  for (const { file: its, find, replace } of edits) {
    if (its !== file) continue
    const times = changed.split(find).length - 1
    if (times !== 1) {
      const what = `the mutant ${name} no longer applies: its text is ${times} times in build/${file}`
      throw new Error(`${what}. Find its code again in sim/mutants/, or replace it.`)
    }
    changed = changed.replace(find, () => replace)
  }
  return changed
}

/** Of compiled code. */
export function codeOf(file: string): string {
  return readFileSync(join('build', file), 'utf8')
}

export function focused(plan: Plan, focus: Focus): Plan {
  const { wire, members, producers, actions = [], ...rest } = focus
  const names = new Set((focus.topics ?? []).map(({ name }) => name))
  const there = (topic: string) => focus.topics === undefined || names.has(topic)
  // What is drawn for topics that the focus does without is left out, and what happens to who is not there.
  const nodes = new Set(['b', 'admin', ...[...plan.members, ...plan.producers].map(p => p.name)])
  const all = [...plan.actions, ...actions].filter(action => {
    if ('node' in action && !nodes.has(action.node)) return false
    if (action.do === 'rewind') return action.topics.every(there)
    return !('topic' in action) || there(action.topic)
  })
  return {
    ...plan,
    ...rest,
    actions: all.sort((a, b) => a.atMs - b.atMs),
    wire: { ...plan.wire, ...wire },
    members: plan.members.map(member => ({ ...member, ...members })),
    producers: plan.producers.map(producer => ({ ...producer, ...producers }))
  }
}
