/**
 * The test of the tests: the simulation must see each mutant, within the seeds that its file names.
 *
 *   npm run sim:mutants                          all of them
 *   npm run sim:mutants -- NAME …                some, by a part of their name, or a rule
 *   npm run sim:mutants -- --rotation 20         twenty, others each day
 *   npm run sim:mutants -- --seeds 200           seeds to try for each, instead of what its file says
 *   npm run sim:mutants -- --jobs N              mutants at once. Default: a process for each processor
 *
 * The same seeds each time. A seed counts only if all rules hold in it without the mutant.
 */
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { type Answer, Worker } from '../crew.ts'
import { drawPlan } from '../plan/draw.ts'
import type { Plan } from '../plan/plan.ts'
import { focused, type Mutant, readMutants } from './mutant.ts'

interface Result {
  readonly mutant: Mutant
  /** The rule that broke; undefined: none. */
  readonly rule: string | undefined
  /** What broke it, or why it can't be told. */
  readonly message: string
  readonly seeds: number
  readonly cpuMs: number
}

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rotation: { type: 'string' },
    seeds: { type: 'string' },
    jobs: { type: 'string' },
    verbose: { type: 'boolean', default: false }
  }
})

const say = (line: string) => void process.stdout.write(`${line}\n`)
const started = performance.now()
const queue = [...chosen()]
const total = queue.length
const results: Result[] = []
const jobs = options.jobs === undefined ? availableParallelism() : Number(options.jobs)
await Promise.all(Array.from({ length: jobs }, work))
const caught = results.filter(({ rule }) => rule !== undefined).length
const seeds = results.reduce((sum, one) => sum + one.seeds, 0)
const seconds = ((performance.now() - started) / 1000).toFixed(0)
say(`${caught} of ${total} mutants caught, ${seeds} seeds in ${seconds} s`)
process.exitCode = caught === total ? 0 : 1

function chosen(): readonly Mutant[] {
  const all = readMutants()
  const names = new Set(all.map(({ name }) => name))
  const named = all.filter(({ name, rules }) => {
    if (positionals.length === 0) return true
    return positionals.some(part => {
      return name === part || rules.includes(part) || (!names.has(part) && name.includes(part))
    })
  })
  const count = Number(options.rotation ?? Infinity)
  if (count >= named.length) return named
  const first = (Math.floor(Date.now() / 86_400_000) * count) % named.length
  return [...named, ...named].slice(first, first + count)
}

/** Takes one mutant after another; the process without a mutant is kept. */
async function work(): Promise<void> {
  const sound = new Worker()
  for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
    const result = await hunt(mutant, sound)
    results.push(result)
    say(told(result))
  }
  sound.end()
}

function told({ mutant, rule, message, seeds, cpuMs }: Result): string {
  const { name, about, rules } = mutant
  const found = rule === undefined ? '✖ NOT CAUGHT' : `✔ ${rule}`
  const other = rule === undefined || rules.includes(rule) ? '' : ` (expected ${rules.join(', ')})`
  const took = `${seeds} seeds ${(cpuMs / 1000).toFixed(0)} s`
  const line = `${found.padEnd(12)} ${took.padStart(14)}  ${name}: ${about}${other}`
  return rule === undefined || options.verbose ? `${line}\n    ${message}` : line
}

async function hunt(mutant: Mutant, sound: Worker): Promise<Result> {
  const flag = new URL(`./load.js?mutant=${encodeURIComponent(mutant.name)}`, import.meta.url)
  const sick = new Worker(['--import', flag.href])
  const most = options.seeds === undefined ? mutant.seeds : Number(options.seeds)
  let cpuMs = 0
  const play = async (worker: Worker, plan: Plan): Promise<Answer | undefined> => {
    const answer = await worker.play(plan, false)
    cpuMs += answer?.cpuMs ?? 0
    return answer
  }
  let result: Omit<Result, 'cpuMs'> = { mutant, rule: undefined, message: '', seeds: most }
  for (let i = 0; i < most; i++) {
    const seed = BigInt(mutant.base) + BigInt(i)
    const plan = focused(drawPlan(seed, mutant.worlds), mutant.focus ?? {})
    const answer = await play(sick, plan)
    if (answer === undefined) {
      const message = `${plan.seed}: the run is stuck, or its process died`
      result = { mutant, rule: undefined, message, seeds: i + 1 }
      break
    }
    const { violation } = answer.outcome
    if (violation === undefined) continue
    if ((await play(sound, plan))?.outcome.violation !== undefined) {
      say(`${plan.seed} (${plan.world}) breaks a rule without ${mutant.name} too`)
      continue
    }
    const { rule } = violation
    const message = `${plan.seed} ${plan.world}: ${violation.message.split('\n')[0] ?? ''}`
    result = { mutant, rule, message, seeds: i + 1 }
    break
  }
  sick.end()
  return { ...result, cpuMs }
}
