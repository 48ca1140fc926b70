/** Many runs, on all processors: a process for each, which takes one seed after another. */
import { type ChildProcess, fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { performance } from 'node:perf_hooks'
import { drawPlan } from './plan/draw.ts'
import type { Plan, WorldName } from './plan/plan.ts'
import { report } from './report.ts'
import { simpler } from './plan/shrink.ts'
import type { Outcome } from './run.ts'

export interface CrewOptions {
  readonly base: bigint | undefined
  readonly worlds: readonly WorldName[]
  readonly minutes: number | undefined
  readonly runs: number | undefined
  readonly jobs: number | undefined
  readonly twice: boolean
  readonly shrink: boolean
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
  const base = options.base ?? BigInt(`0x${randomBytes(6).toString('hex')}`)
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  say(`base seed 0x${base.toString(16)}`)
  const until = performance.now() + (options.minutes ?? Infinity) * 60_000
  const most = options.runs ?? (options.minutes === undefined ? 100 : Infinity)
  const totals = new Totals()
  let next = 0
  let failed: { readonly plan: Plan; readonly answer: Answer | undefined } | undefined
  const jobs = options.jobs ?? availableParallelism()
  await Promise.all(
    Array.from({ length: jobs }, async () => {
      const worker = new Worker()
      while (failed === undefined && next < most && performance.now() < until) {
        const seed = base + BigInt(next++)
        const twice = options.twice || next % 50 === 0
        const plan = drawPlan(seed, options.worlds)
        const answer = await worker.play(plan, twice)
        if (answer !== undefined) totals.add(answer)
        if (answer === undefined || isBad(answer)) failed ??= { plan, answer }
      }
      worker.end()
    })
  )
  say(totals.text())
  if (failed === undefined) return true
  await explain(failed.plan, failed.answer, options.shrink)
  return false
}

function isBad({ outcome, again }: Answer): boolean {
  return outcome.violation !== undefined || (again !== undefined && again !== outcome.hash)
}

async function explain(plan: Plan, answer: Answer | undefined, shrink: boolean): Promise<void> {
  const say = (line: string) => void process.stdout.write(`${line}\n`)
  if (answer === undefined) return say(`${plan.seed}: the run is stuck, or its process died`)
  const { outcome, again } = answer
  const show = (one: Answer) => say(report({ ...one.outcome, marks: new Map(one.outcome.marks) }))
  show(answer)
  if (again !== undefined && again !== outcome.hash) {
    return say(`NOT DETERMINISTIC: ${outcome.hash}, then ${again}`)
  }
  if (!shrink || outcome.violation === undefined) return
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
  #child: ChildProcess | undefined

  /** Undefined: it got stuck, or died. */
  play(plan: Plan, twice: boolean): Promise<Answer | undefined> {
    const child = (this.#child ??= fork(new URL('./worker.js', import.meta.url), { execArgv }))
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

class Totals {
  runs = 0
  virtualMs = 0
  cpuMs = 0
  events = 0
  readonly #marks = new Map<string, number>()
  readonly #startedAt = performance.now()

  add({ outcome, cpuMs }: Answer): void {
    this.runs++
    this.virtualMs += outcome.virtualMs
    this.cpuMs += cpuMs
    this.events += outcome.events
    for (const [mark, count] of outcome.marks) {
      this.#marks.set(mark, (this.#marks.get(mark) ?? 0) + count)
    }
  }

  text(): string {
    const seconds = (performance.now() - this.#startedAt) / 1000
    const speed = this.virtualMs / Math.max(1, this.cpuMs)
    const marks = [...this.#marks].sort(([a], [b]) => (a < b ? -1 : 1))
    return [
      ...marks.map(([mark, count]) => `${String(count).padStart(9)}  ${mark}`),
      `${this.runs} runs in ${seconds.toFixed(0)} s, ${(this.virtualMs / 3_600_000).toFixed(2)} virtual hours, ` +
        `${this.events} events, ${speed.toFixed(0)} virtual s per CPU s, ${marks.length} marks hit`
    ].join('\n')
  }
}
