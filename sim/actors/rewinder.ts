/** Who asks for rewinds: an admin on a node of its own, or a member from inside its group. */
import { PlayheadError } from '../../src/base/error.ts'
import { Admin } from '../../src/client/admin/admin.ts'
import type { RewindPlan } from '../../src/group/ledger/plan.ts'
import { RewindError, type RewindResult } from '../../src/client/admin/rewind-result.ts'
import { Cluster } from '../../src/rpc/cluster.ts'
import type { Offsets } from '../history/events.ts'
import type { Action } from '../plan/plan.ts'
import type { Process } from '../world/process.ts'
import { keep } from './keeper.ts'
import { openConsumers } from './member.ts'
import { mustSettle, rest, type Stage } from './stage.ts'

export const adminNode = 'admin'

type RewindAction = Extract<Action, { readonly do: 'rewind' }>
interface Wish {
  readonly topic: string
  readonly partition: number
  readonly offset: number
}

const admins = new WeakMap<Process, Admin>()
const clusters = new WeakMap<Process, Cluster>()
/** Rewinds and changes of topics that each process has asked for and not been told the end of. */
const asking = new WeakMap<Process, number>()
const closeMs = 10_000

export function adminProgram(stage: () => Stage): (process: Process) => Promise<void> {
  return async process => {
    const { bootstrap, world } = stage()
    const cluster = new Cluster(process.env, {
      bootstrap,
      clientId: adminNode,
      requestTimeoutMs: 5_000
    })
    admins.set(process, new Admin(cluster))
    clusters.set(process, cluster)
    while (!stage().stopping) await rest(stage(), process, 1_000)
    await mustSettle(stage(), process, 'cluster.close', closeMs, () => cluster.close())
    world.saw(process, { k: 'closed', leftovers: process.leftovers })
  }
}

/** Has the topics changed, if the admin is there. */
export function askKeeper(stage: Stage, action: Parameters<typeof keep>[3]): void {
  const process = stage.world.process(adminNode)
  if (process === undefined) return
  process.enter(() => {
    const cluster = clusters.get(process)
    if (cluster !== undefined) attend(stage, process, keep(stage, process, cluster, action))
  })
}

/** Somebody who is there waits to hear of a rewind, or of a topic. */
export function isAsking({ world }: Stage, nodes: readonly string[]): boolean {
  return nodes.some(node => {
    const process = world.process(node)
    return process !== undefined && (asking.get(process) ?? 0) > 0
  })
}

/** Asks for the rewind, from the process of who is to ask, if it is there. */
export function askRewind(stage: Stage, action: RewindAction): void {
  const { world } = stage
  const process = world.process(action.by)
  if (process === undefined) return
  process.enter(() => attend(stage, process, ask(stage, action, process)))
}

function attend({ world }: Stage, process: Process, work: Promise<void>): void {
  const count = (by: number) => asking.set(process, (asking.get(process) ?? 0) + by)
  count(1)
  work.then(
    () => count(-1),
    (error: unknown) => {
      if (!process.dead) world.uncaught(error)
    }
  )
}

async function ask(stage: Stage, action: RewindAction, process: Process): Promise<void> {
  const { world } = stage
  const { group, timeoutMs, until } = action
  const w = `w${++stage.calls}`
  if (until !== null) return replay(stage, action, process, w, until)
  const wishes = wishesOf(stage, action, action.to)
  world.saw(process, { k: 'rewind', w, group, to: offsetsOf(wishes) })
  // A plan is made first, with as much time.
  const deadlineMs = 2 * timeoutMs + 5_000
  const call = () => rewindBy(action, process, wishes)
  await settle(stage, process, w, () => mustSettle(stage, process, 'rewind', deadlineMs, call))
}

/** What lies from one place up to another is delivered once more. */
async function replay(
  stage: Stage,
  action: RewindAction,
  process: Process,
  w: string,
  until: number
): Promise<void> {
  const { world } = stage
  const { group, timeoutMs } = action
  const admin = admins.get(process)
  if (admin === undefined) return
  const deadlineMs = timeoutMs + 5_000
  let plan: RewindPlan
  try {
    const from = wishesOf(stage, action, action.to)
    const options = { from, until: wishesOf(stage, action, until), timeoutMs }
    plan = await mustSettle(stage, process, 'plan', deadlineMs, () =>
      admin.planReplay(group, options)
    )
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    return world.mark(`a plan fails: ${error.code}`)
  }
  if (plan.partitions.length === 0) return world.mark('a replay of nothing')
  const to = plan.partitions.map(({ topic, partition, target: offset }) => ({
    topic,
    partition,
    offset
  }))
  world.saw(process, { k: 'rewind', w, group, to: offsetsOf(to) })
  world.mark('a bounded replay')
  const call = () => admin.rewind(plan, { timeoutMs })
  await settle(stage, process, w, () => mustSettle(stage, process, 'replay', deadlineMs, call))
}

/** Takes down what the caller is told. */
async function settle(
  stage: Stage,
  process: Process,
  w: string,
  call: () => Promise<RewindResult | undefined>
): Promise<void> {
  const { world } = stage
  try {
    const result = await call()
    if (result !== undefined) answered(stage, process, w, result)
  } catch (error) {
    if (!(error instanceof PlayheadError)) throw error
    const { code } = error
    world.mark(`a rewind fails: ${code}`)
    const told = code === 'REWIND_SUPERSEDED' || code === 'PARTIALLY_APPLIED'
    if (told && error instanceof RewindError) return answered(stage, process, w, error.result)
    const surely =
      code === 'REWIND_REFUSED' && !(error instanceof RewindError && error.result.id !== '')
    world.saw(process, { k: surely ? 'rewind.fail' : 'rewind.info', w, why: code })
  }
}

async function rewindBy(
  { by, group, timeoutMs }: RewindAction,
  process: Process,
  wishes: readonly Wish[]
): Promise<RewindResult | undefined> {
  if (by !== adminNode) return openConsumers.get(process)?.rewind(wishes, { timeoutMs })
  const admin = admins.get(process)
  if (admin === undefined) return undefined
  const plan = await admin.planRewind(group, { to: wishes, timeoutMs })
  return admin.rewind(plan, { timeoutMs, allowSkip: true, reason: 'the simulation' })
}

function answered(stage: Stage, process: Process, w: string, result: RewindResult): void {
  const applied: Record<string, number> = {}
  const superseded: string[] = []
  for (const { topic, partition, to, state } of result.partitions) {
    const tp = `${topic}:${partition}`
    if (state === 'applied') applied[tp] = to
    else superseded.push(tp)
  }
  stage.world.mark(superseded.length > 0 ? 'a rewind is superseded' : 'a rewind is applied')
  stage.world.saw(process, { k: 'rewind.ok', w, id: result.id, applied, superseded })
}

/** The plan says how far along the log; here it is known how far that is. */
function wishesOf(stage: Stage, { topics }: RewindAction, to: number): Wish[] {
  return stage.topics.names
    .filter(name => topics.includes(name))
    .flatMap(topic =>
      Array.from({ length: stage.topics.partitionsOf(topic) }, (_, partition) => {
        const end = stage.liveness.endOf(`${topic}:${partition}`)
        return { topic, partition, offset: Math.floor(end * to) }
      })
    )
}

function offsetsOf(wishes: readonly Wish[]): Offsets {
  return Object.fromEntries(
    wishes.map(({ topic, partition, offset }) => [`${topic}:${partition}`, offset])
  )
}
