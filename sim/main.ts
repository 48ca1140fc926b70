/**
 * npm run sim -- --seed 0x5f3a --trace         one run, as it goes
 * npm run sim -- --minutes 10                  new seeds on all processors, until the first rule that does not hold
 * npm run sim -- --runs 100 --base 0x10        so many seeds, from a base
 * npm run sim -- --plan sim/seeds/x.json       a plan that was kept
 * npm run sim -- --kept                        all plans that were kept
 *
 *   --world log,groups     only plans of these worlds
 *   --twice                each seed twice: the hashes of their traces must be equal
 *   --node PATH            each seed on this Node too: the hashes must be equal. May be given more than once
 *   --short                plans with five seconds of faults at most
 *   --campaign FILE        keeps the sums in a file, goes on where it ends, and does not stop at a violation
 *   --jobs N               processes. Default: all processors
 *   --no-shrink            stop at the plan as drawn
 *
 * A violation prints the rule, what happened around it, the seed, the commit, the shrunk plan and the command to replay.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { crew, type CrewOptions } from './crew.ts'
import { playKept } from './kept.ts'
import { drawPlan } from './plan/draw.ts'
import { type Plan, type WorldName, worldNames } from './plan/plan.ts'
import { report, told } from './report.ts'
import { run } from './run.ts'
import { forbidGlobals } from './world/forbid.ts'

/** Worlds that are drawn unless some are named. */
const usual: readonly WorldName[] = ['log', 'groups', 'groups', 'controller', 'classic']

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string' },
    plan: { type: 'string' },
    kept: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    runs: { type: 'string' },
    base: { type: 'string' },
    world: { type: 'string' },
    jobs: { type: 'string' },
    trace: { type: 'boolean', default: false },
    node: { type: 'string', multiple: true, default: [] },
    short: { type: 'boolean', default: false },
    campaign: { type: 'string' },
    twice: { type: 'boolean', default: false },
    'no-shrink': { type: 'boolean', default: false }
  }
})

const worlds = (options.world?.split(',') ?? usual).map(name => {
  const found = worldNames.find(world => world === name)
  if (found === undefined) throw new Error(`no world ${name}: ${worldNames.join(', ')}`)
  return found
})

if (options.seed !== undefined) await one(drawPlan(BigInt(options.seed), worlds))
else if (options.plan !== undefined) {
  await one((JSON.parse(readFileSync(options.plan, 'utf8')) as { plan: Plan }).plan)
} else if (options.kept) {
  forbidGlobals()
  process.exitCode = (await playKept(line => void process.stdout.write(`${line}\n`))) ? 0 : 1
} else await many()

/** A single run, in this process. */
async function one(plan: Plan): Promise<void> {
  const write = (line: string) => void process.stdout.write(`${line}\n`)
  forbidGlobals()
  const trace = options.trace
    ? { trace: (event: Parameters<typeof told>[0]) => write(told(event)), log: write }
    : {}
  const outcome = await run(plan, trace)
  if (options.twice) {
    const { hash } = await run(plan)
    if (hash !== outcome.hash) write(`NOT DETERMINISTIC: ${outcome.hash}, then ${hash}`)
  }
  write(report(outcome))
  process.exitCode = outcome.violation === undefined ? 0 : 1
}

function positive(name: 'minutes' | 'runs' | 'jobs'): number | undefined {
  const text = options[name]
  if (text === undefined) return undefined
  const number = Number(text)
  if (number > 0 && Number.isFinite(number)) return number
  throw new Error(`--${name} ${text}: give a number above zero`)
}

async function many(): Promise<void> {
  const crewOptions: CrewOptions = {
    base: options.base === undefined ? undefined : BigInt(options.base),
    worlds,
    minutes: positive('minutes'),
    runs: positive('runs'),
    jobs: positive('jobs'),
    twice: options.twice,
    shrink: !options['no-shrink'],
    nodes: options.node,
    mostFaultsMs: options.short ? 5_000 : Infinity,
    campaign: options.campaign
  }
  process.exitCode = (await crew(crewOptions)) ? 0 : 1
}
