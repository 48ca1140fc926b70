/** Many runs, on all processors: a process for each, which takes one seed after another. */
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { performance } from 'node:perf_hooks'
import { drawPlan } from './plan/draw.ts'
import { missedMarks, requiredMarks } from './marks.ts'
import { type Plan, type WorldName, worldNames } from './plan/plan.ts'
import { commit, report } from './report.ts'
import { simpler } from './plan/shrink.ts'
import type { Outcome } from './run.ts'
import { Campaign, Totals } from './totals.ts'

export interface CrewOptions {
  readonly base: bigint | undefined
  readonly worlds: readonly WorldName[]
  readonly minutes: number | undefined
  readonly runs: number | undefined
  readonly jobs: number | undefined
  readonly twice: boolean
  readonly shrink: boolean
  /** Other Nodes, by their paths: each seed runs on them too, and its hash must be the same. */
  readonly nodes: readonly string[]
  /** Faults go on for so long at most, whatever a plan says. */
  readonly mostFaultsMs: number
  /** A file that keeps the sums: goes on where it ends, and after a violation too. */
  readonly campaign: string | undefined
}

/** What a worker answers for a plan. */
export interface Answer {
  readonly outcome: Omit<Outcome, 'marks'> & {
    readonly marks: readonly (readonly [string, number])[]
  }
  readonly cpuMs: number
  /** Of a second run of the same plan, where one was asked for. */
  readonly again: string | undefined
}

/** A run that takes longer is stuck: there is no more than a few seconds of work in one. */
const stuckMs = 120_000

/** True: every rule held. */
export async function crew(options: CrewOptions): Promise<boolean> {
  const campaign =
    options.campaign === undefined
      ? undefined
      : new Campaign(options.campaign, options.base ?? randomBase(), commit())
  const base = campaign?.base ?? options.base ?? randomBase()
  const first = campaign?.next ?? 0
  say(`base seed 0x${base.toString(16)}${first === 0 ? '' : `, from its ${first}th on`}`)
  const startedAt = performance.now()
  const until = startedAt + (options.minutes ?? Infinity) * 60_000
  const most = first + (options.runs ?? (options.minutes === undefined ? 100 : Infinity))
  const totals = new Totals()
  let next = first
  let failed: Failure | undefined
  const failures: Failure[] = []
  const jobs = options.jobs ?? availableParallelism()
  await Promise.all(
    Array.from({ length: jobs }, async () => {
      const player = new Player(options)
      while (failed === undefined && next < most && performance.now() < until) {
        const seed = base + BigInt(next++)
        const drawn = drawPlan(seed, options.worlds)
        const plan = { ...drawn, faultsMs: Math.min(drawn.faultsMs, options.mostFaultsMs) }
        const { answer, trouble } = await player.play(plan, next % 50 === 0)
        if (answer !== undefined) {
          totals.add(answer)
          campaign?.played(answer)
        }
        if (trouble !== undefined) {
          const failure = { plan, answer, trouble }
          failures.push(failure)
          if (campaign === undefined) failed ??= failure
          else {
            campaign.violated(plan, trouble)
            say(`${plan.seed} ${plan.world}: ${trouble.split('\n')[0] ?? ''}`)
          }
        }
        if (next % 20 === 0) campaign?.save(next)
      }
      player.end()
    })
  )
  const text = totals.sorted.map(([mark, count]) => `${String(count).padStart(9)}  ${mark}`)
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
  say([...text, `${totals.text}, in ${seconds} s`].join('\n'))
  if (campaign !== undefined) {
    campaign.save(next)
    say(campaign.text)
  }
  if (failed !== undefined) await explain(failed, options.shrink)
  return failures.length === 0 && sawAll(options, totals)
}

/** A run that is long enough, in all worlds, has come by all that the rules are to be tested by. */
function sawAll({ minutes = 0, worlds }: CrewOptions, totals: Totals): boolean {
  if (minutes < 10 || worldNames.some(world => !worlds.includes(world))) return true
  const missed = missedMarks(new Set(totals.marks.keys()))
  say(`${requiredMarks.length - missed.length} of ${requiredMarks.length} required marks hit`)
  for (const mark of missed) say(`NEVER HIT  ${mark}`)
  return missed.length === 0
}

interface Failure {
  readonly plan: Plan
  readonly answer: Answer | undefined
  readonly trouble: string
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

function randomBase(): bigint {
  return BigInt(`0x${randomBytes(6).toString('hex')}`)
}

/** Plays a seed as often as it is to be played, and says what was wrong. */
class Player {
  readonly #twice: boolean
  readonly #worker = new Worker()
  readonly #others: readonly { readonly node: string; readonly worker: Worker }[]

  constructor({ twice, nodes }: CrewOptions) {
    this.#twice = twice
    this.#others = nodes.map(node => ({ node, worker: new Worker([], node) }))
  }

  async play(
    plan: Plan,
    again: boolean
  ): Promise<{ readonly answer: Answer | undefined; readonly trouble: string | undefined }> {
    const answer = await this.#worker.play(plan, this.#twice || again)
    const trouble = await this.#troubleOf(plan, answer)
    return { answer, trouble }
  }

  async #troubleOf(plan: Plan, answer: Answer | undefined): Promise<string | undefined> {
    if (answer === undefined) return 'the run is stuck, or its process died'
    const { hash, violation } = answer.outcome
    if (violation !== undefined) return violation.message
    const differs = (where: string, other: string | undefined) =>
      other === undefined || other === hash
        ? undefined
        : `NOT DETERMINISTIC: ${hash}, then ${other}${where}`
    const here = differs('', answer.again)
    if (here !== undefined) return here
    for (const { node, worker } of this.#others) {
      const other = await worker.play(plan, this.#twice)
      if (other === undefined) return `stuck on ${node}`
      const there =
        differs(` on ${node}`, other.outcome.hash) ?? differs(` on ${node}`, other.again)
      if (there !== undefined) return there
    }
    return undefined
  }

  end(): void {
    this.#worker.end()
    for (const { worker } of this.#others) worker.end()
  }
}

async function explain({ plan, answer, trouble }: Failure, shrink: boolean): Promise<void> {
  if (answer === undefined) return say(`${plan.seed}: ${trouble}`)
  const { outcome } = answer
  const show = (one: Answer) => say(report({ ...one.outcome, marks: new Map(one.outcome.marks) }))
  show(answer)
  if (outcome.violation === undefined) return say(trouble)
  if (!shrink) return
  const { rule } = outcome.violation
  const wanted = kindOf(outcome.violation)
  const worker = new Worker()
  const fails = async (candidate: Plan) => {
    const violation = (await worker.play(candidate, false))?.outcome.violation
    return violation !== undefined && kindOf(violation) === wanted
  }
  const small = await simpler(plan, fails)
  const last = await worker.play(small, false)
  worker.end()
  if (last === undefined) return
  say('\n── shrunk ──')
  show(last)
  const file = `build/sim-${plan.seed}.json`
  mkdirSync('build', { recursive: true })
  writeFileSync(
    file,
    `${JSON.stringify({ rule, message: last.outcome.violation?.message, plan: small }, null, 2)}\n`
  )
  say(`shrunk plan: ${file}\nreplay: npm run sim -- --plan ${file} --trace`)
}

/** Whether two violations are the same: by rule, and for errors by what they say without its numbers. */
function kindOf({ rule, message }: { readonly rule: string; readonly message: string }): string {
  if (!['C1', 'C2', 'G7'].includes(rule)) return rule
  return (message.split('\n')[0] ?? '').replace(/[0-9.]+/g, '#')
}

/** Most of what a run makes is short-lived: with more room for it, less of it is moved about. */
const execArgv = ['--max-semi-space-size=32']

/** A process that plays plans, one at a time; one that is stuck or died is replaced. */
export class Worker {
  /** Of the process: flags of Node, before its program. */
  readonly #flags: readonly string[]
  readonly #node: string
  #child: ChildProcess | undefined

  constructor(flags: readonly string[] = [], node: string = process.execPath) {
    this.#flags = flags
    this.#node = node
  }

  /** Undefined: it got stuck, or died. */
  play(plan: Plan, twice: boolean): Promise<Answer | undefined> {
    const child = (this.#child ??= fork(new URL('./worker.js', import.meta.url), {
      execPath: this.#node,
      execArgv: [...execArgv, ...this.#flags]
    }))
    return new Promise(resolve => {
      const done = (answer: Answer | undefined) => {
        clearTimeout(timer)
        child.off('message', done)
        child.off('exit', died)
        resolve(answer)
      }
      const died = () => {
        this.#child = undefined
        done(undefined)
      }
      const timer = setTimeout(() => child.kill('SIGKILL'), stuckMs)
      child.on('message', done)
      child.on('exit', died)
      child.send({ plan, twice })
    })
  }

  end(): void {
    this.#child?.removeAllListeners('exit')
    this.#child?.kill()
    this.#child = undefined
  }
}
