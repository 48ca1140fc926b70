/** One run: a plan played to its end, and what came of it. */
import { bootstrapOf, brokerActor, brokerNode, type BrokerActor } from './actors/broker.ts'
import { memberProgram } from './actors/member.ts'
import { producerProgram } from './actors/producer.ts'
import { readerProgram } from './actors/reader.ts'
import { adminNode, adminProgram, askRewind, isAsking } from './actors/rewinder.ts'
import type { Stage } from './actors/stage.ts'
import { Tap } from './actors/tap.ts'
import { Topics } from './actors/topics.ts'
import { CallChecker } from './checkers/calls.ts'
import { CommitChecker } from './checkers/commits.ts'
import { CoverageChecker } from './checkers/coverage.ts'
import { FencingChecker } from './checkers/fencing.ts'
import { GroupChecker } from './checkers/group.ts'
import { HandoverChecker } from './checkers/handover.ts'
import { LandingChecker } from './checkers/landing.ts'
import { LivenessChecker } from './checkers/liveness.ts'
import { LogChecker } from './checkers/log.ts'
import { OrderChecker } from './checkers/order.ts'
import { RewindChecker } from './checkers/rewind.ts'
import { TransactionChecker } from './checkers/transactions.ts'
import { Witness } from './checkers/witness.ts'
import { type Happened, Violation } from './history/events.ts'
import { brokerDoes, playActions } from './nemesis.ts'
import type { Plan } from './plan/plan.ts'
import { SeededRandom } from './world/random.ts'
import { JournalDisk } from './world/journal.ts'
import { type Storage, TransactionDisk } from './world/store.ts'
import { World } from './world/world.ts'

/** After the faults: until all works again, and until all is closed. */
const healMs = 60_000
/** For the rewinds that a plan asks for to end: planned and carried out within 30 s each. */
const rewindMs = 70_000
/** Whoever has got no further for so long is stuck. */
const othersStuckMs = 30_000
/** A round of a classic group waits for whoever asked in vain: a JoinGroup lost with its broker's power, say. */
const classicStuckMs = 330_000
const closeMs = 60_000
const readMs = 60_000

export interface Outcome {
  readonly plan: Plan
  readonly hash: string
  readonly violation: { readonly rule: string; readonly message: string } | undefined
  /** The last events before the end, when there was a violation. */
  readonly tail: readonly Happened[]
  readonly marks: ReadonlyMap<string, number>
  readonly virtualMs: number
  readonly events: number
}

export interface RunOptions {
  readonly trace?: ((event: Happened) => void) | undefined
  readonly log?: ((line: string) => void) | undefined
}

export async function run(plan: Plan, options: RunOptions = {}): Promise<Outcome> {
  const seed = BigInt(plan.seed)
  const commits = new CommitChecker()
  const liveness = new LivenessChecker()
  const checkers = [
    new CallChecker(),
    new LogChecker(),
    new OrderChecker(),
    new GroupChecker(),
    new FencingChecker(),
    commits,
    new RewindChecker(),
    new LandingChecker(),
    new TransactionChecker(),
    new CoverageChecker(),
    new HandoverChecker(),
    liveness,
    new Witness(name => world.mark(name))
  ]
  const world: World = new World({ seed, faults: plan.wire, checkers, ...options })
  const stage: Stage = {
    world,
    plan,
    bootstrap: bootstrapOf(plan.brokers),
    liveness,
    topics: new Topics(plan.topics),
    healed: false,
    diskFailed: false,
    quiet: false,
    stopping: false,
    calls: 0
  }
  const uncaught = (error: unknown): void => world.uncaught(error)
  process.on('unhandledRejection', uncaught)
  try {
    await play(stage, () => liveness.behind((group, tp) => commits.effective(group, tp) ?? 0))
    if (world.violation === undefined) world.history.end()
  } catch (error) {
    world.uncaught(error)
  } finally {
    process.off('unhandledRejection', uncaught)
  }
  const { violation } = world
  world.history.note(`${world.clock.asked} timers until ${world.clock.monotonic()}`)
  return {
    plan,
    hash: world.history.hash,
    violation: violation && { rule: violation.rule, message: violation.message },
    tail: violation === undefined ? [] : around(world.history.tail, violation),
    marks: world.marks,
    virtualMs: world.clock.monotonic(),
    events: world.history.count
  }
}

async function play(stage: Stage, behind: () => string): Promise<void> {
  const { world, plan } = stage
  const disk = diskOf(plan)
  const broker = addNodes(stage, disk)
  world.watch()
  world.start(brokerNode)
  await world.run(10_000, () => broker.running !== undefined)
  for (const name of actors(plan)) world.start(name)
  playActions(stage, broker, disk)
  await world.run(plan.faultsMs)
  await heal(stage, broker)
  stage.quiet = true
  await allFinished(stage, namesOf(plan.producers), closeMs, 'closed')
  await caughtUp(stage, behind)
  for (const group of stage.liveness.groups) await rewindsInQuiet(stage, group)
  await caughtUp(stage, behind)
  stage.stopping = true
  await allFinished(stage, actors(plan), closeMs, 'closed')
  world.start('reader')
  await allFinished(stage, ['reader'], readMs, 'read everything')
  await closeBroker(stage, broker)
}

/** Half the plans have the store that a user's broker has, half one that can do less and is simpler. */
function diskOf({ seed, durability, store }: Plan): Storage {
  const random = new SeededRandom(BigInt(seed)).split('disk')
  return store === 'journal'
    ? new JournalDisk(durability, random)
    : new TransactionDisk(durability, random)
}

function addNodes(stage: Stage, disk: Storage): BrokerActor {
  const { world, plan } = stage
  const offset = (name: string) => plan.wallOffsetsMs[name] ?? 0
  const broker = brokerActor(() => stage, disk, new Tap(world))
  world.addNode(brokerNode, broker.program, offset(brokerNode), disk)
  const here = () => stage
  for (const producer of plan.producers) {
    world.addNode(producer.name, producerProgram(here, producer), offset(producer.name))
  }
  for (const member of plan.members) {
    world.addNode(member.name, memberProgram(here, member), offset(member.name))
  }
  world.addNode(adminNode, adminProgram(here), offset(adminNode))
  world.addNode('reader', readerProgram(here))
  return broker
}

function actors(plan: Plan): string[] {
  return [...namesOf([...plan.producers, ...plan.members]), adminNode]
}

function namesOf(nodes: readonly { readonly name: string }[]): string[] {
  return nodes.map(({ name }) => name)
}

/** All faults end, what is down comes back, and in a while all works. */
async function heal(stage: Stage, broker: BrokerActor): Promise<void> {
  const { world } = stage
  stage.healed = true
  world.heal()
  // A write that failed is final for a process: it is started anew.
  if (world.process(brokerNode) !== undefined && stage.diskFailed) world.crash(brokerNode)
  for (const node of [brokerNode, ...actors(stage.plan)]) {
    if (world.process(node) !== undefined) continue
    world.restorePower(node)
    world.start(node)
  }
  await world.run(healMs, () => broker.running !== undefined)
  for (let id = 1; id <= stage.plan.brokers; id++) {
    brokerDoes(stage, broker, running => running.startListener(id))
  }
  await world.run(5_000)
}

/** W9: with no fault about, a rewind is taken up at once. */
async function rewindsInQuiet(stage: Stage, group: string): Promise<void> {
  const { world, plan, liveness } = stage
  if (world.violation !== undefined) return
  const topics = stage.topics.names.filter(name =>
    plan.members.some(one => one.group === group && one.topics.includes(name))
  )
  const checkMs = Math.max(...plan.members.map(({ rewindCheckMs }) => rewindCheckMs))
  const withinMs = checkMs + 5_000
  const what = { do: 'rewind', by: adminNode, group, topics, to: 0.7, until: null } as const
  // What was asked for while all was wrong may still be done: another rewind takes the place of ours, a topic goes.
  await world.run(rewindMs, () => !isAsking(stage, actors(plan)))
  askRewind(stage, { ...what, atMs: 0, timeoutMs: 20_000 })
  await world.run(withinMs, () => liveness.lastRewind === undefined)
  const { lastRewind } = liveness
  if (lastRewind === undefined) return
  world.uncaught(
    new Violation('W9', `a rewind of ${group} in all quiet ${lastRewind} after ${withinMs} ms`)
  )
}

/** G7: every group gets to the end. */
async function caughtUp(stage: Stage, behind: () => string): Promise<void> {
  const { world, plan } = stage
  if (plan.members.length === 0 || world.violation !== undefined) return
  // As long as it gets on, it may take its time: a plan may have records fetched one by one.
  for (let before = ''; ; ) {
    let looks = 0
    const stuckMs = plan.world === 'classic' ? classicStuckMs : othersStuckMs
    await world.run(stuckMs, () => ++looks % 50 === 0 && behind() === '')
    const still = behind()
    if (still === '' || world.violation !== undefined) break
    if (still === before) {
      world.uncaught(new Violation('G7', `for ${stuckMs} ms of quiet ${still}`))
      return
    }
    before = still
  }
  // Time for owners to see what late commits did.
  await world.run(5_000)
  world.add('world', 0, { k: 'quiet' })
}

async function allFinished(
  stage: Stage,
  nodes: readonly string[],
  withinMs: number,
  what: string
): Promise<void> {
  const { world } = stage
  const open = () => nodes.filter(node => !world.finished(node))
  await world.run(withinMs, () => open().length === 0)
  if (world.violation !== undefined || open().length === 0) return
  world.uncaught(new Violation('C1', `${open().join(', ')} has not ${what} within ${withinMs} ms`))
}

async function closeBroker(stage: Stage, broker: BrokerActor): Promise<void> {
  const { world } = stage
  const { running } = broker
  const process = world.process(brokerNode)
  if (running === undefined || process === undefined || world.violation !== undefined) return
  let closed = false
  process.enter(() => {
    running.close().then(
      () => {
        closed = true
        world.saw(process, { k: 'closed', leftovers: process.leftovers })
      },
      (error: unknown) => world.uncaught(error)
    )
  })
  await world.run(closeMs, () => closed)
  if (!closed) world.uncaught(new Violation('C1', 'the broker did not close'))
}

/** What is of interest: the last events, and all that the violation's own names. */
function around(tail: readonly Happened[], violation: Violation): readonly Happened[] {
  const { event } = violation
  if (event === undefined || !('tp' in event)) return tail.slice(-40)
  const named = (v: string) => violation.message.includes(v)
  const related = tail.filter(other => {
    if (other.k === 'call' || other.k === 'settled') return false
    if ('v' in other && other.k !== 'deliver' && other.k !== 'final') return named(other.v)
    return !('tp' in other) || other.tp === event.tp
  })
  return related.slice(-60)
}
