/**
 * Makes the plan of a rewind or replay: asks who has each partition, where the group is, and once, here, which
 * offset the wish means in each log. Nothing is written.
 */
import { PlayheadError } from '../../base/error.ts'
import { few } from '../../base/printable.ts'
import {
  type Known,
  type Owner,
  type PlannedPartition,
  planPartition,
  planReplay,
  type RewindPlan,
  refusals,
  undoTarget
} from '../../group/ledger/plan.ts'
import { effective } from '../../group/ledger/position.ts'
import { type Sequence, sequenceOf } from '../../protocol/embedded/rewind-envelope.ts'
import type { Cluster, WaitOptions } from '../../rpc/cluster.ts'
import type { TopicMetadata } from '../../rpc/metadata.ts'
import { type ListedOffset, listOffsets } from '../../rpc/partition-offsets.ts'
import { sleep } from '../../rpc/retry.ts'
import { cancelledState, type LedGroup, ledGroup, newestId } from '../led.ts'
import { keyOf, ledgerOf, readSlots, type Slots } from '../ledger.ts'
import type { TopicPartition, TopicPartitionOffset } from '../partition.ts'
import { timestampOf, type UniformTarget } from '../time.ts'
import {
  describeGroups,
  type GroupDescription,
  type GroupMember,
  logsOf,
  ownersOf
} from './groups.ts'
import { describeConfigs } from './topics.ts'

/** Where a rewind goes to. */
export type RewindTarget =
  | UniformTarget
  /** Exactly these offsets; the partitions are those named here. */
  | readonly TopicPartitionOffset[]
  /** Where another group is. */
  | { readonly group: string }

/** Which partitions of a group a rewind is for. */
export interface RewindScope {
  /** All partitions of these topics. */
  readonly topics?: readonly string[] | undefined
  /** These partitions. Neither: all that the group has committed or has members for. */
  readonly partitions?: readonly TopicPartition[] | undefined
  /** Allow a group that doesn't exist: it begins where it is rewound to. Default false. */
  readonly create?: boolean | undefined
  /** The ledger group. Default: the group's name and '.rewind'. */
  readonly ledger?: string | undefined
}

/** What is rewound, and where to. */
export interface PlanOptions extends RewindScope, WaitOptions {
  /** Where to. */
  readonly to: RewindTarget
}

/** What is delivered once more, and which part of it. */
export interface ReplayPlanOptions extends RewindScope, WaitOptions {
  /** Where it begins. */
  readonly from: RewindTarget
  /** Where it ends: the record at this place is not delivered again. */
  readonly until: RewindTarget
}

/** What a plan is made of. */
interface Survey {
  readonly group: string
  readonly ledger: string
  readonly description: GroupDescription
  readonly partitions: readonly Known[]
  readonly warnings: readonly string[]
}

/**
 * Plans a rewind. Rejects with UNKNOWN_TOPIC or UNKNOWN_PARTITION when any partition is, with UNKNOWN_GROUP
 * when there is nothing to rewind, with INVALID_ARGUMENT.
 */
export async function planRewind(
  cluster: Cluster,
  group: string,
  options: PlanOptions
): Promise<RewindPlan> {
  const { to } = options
  const which = isExact(to) ? { ...options, topics: undefined, partitions: to } : options
  const survey = await surveyOf(cluster, group, which, options)
  const now = cluster.env.clock.now()
  const wishes = await resolve(cluster, survey.partitions, to, now, options)
  const planned = survey.partitions.flatMap((known, i) => {
    const { offset, timestamp = null } = wishes[i] ?? {}
    return offset === undefined ? [] : [planPartition(known, offset, now, timestamp)]
  })
  return planOf('rewind', leavingOut(survey, wishes, to), planned)
}

/** Plans a bounded replay of what lies from `from` up to `until`. Partitions with nothing there are left out. */
export async function planBoundedReplay(
  cluster: Cluster,
  group: string,
  options: ReplayPlanOptions
): Promise<RewindPlan> {
  const { from } = options
  const which = isExact(from) ? { ...options, topics: undefined, partitions: from } : options
  const survey = await surveyOf(cluster, group, which, options)
  const now = cluster.env.clock.now()
  const starts = await resolve(cluster, survey.partitions, from, now, options)
  const ends = await resolve(cluster, survey.partitions, options.until, now, options)
  const ahead: string[] = []
  const planned = survey.partitions.flatMap((known, i) => {
    const { offset, timestamp = null } = starts[i] ?? {}
    if (offset === undefined) return []
    const end = ends[i]?.offset ?? known.logEnd
    const replay = planReplay(known, offset, end, now, timestamp)
    if (replay === null && offset < end) ahead.push(`${known.topic}-${known.partition}`)
    return replay ? [replay] : []
  })
  const { warnings, ...plan } = planOf('replay', leavingOut(survey, starts, from), planned)
  if (ahead.length === 0) return { ...plan, warnings }
  const names = ahead.join(', ')
  const why = `left out, as the group has committed nothing of the range: ${names}`
  return { ...plan, warnings: [...warnings, why] }
}

/**
 * Where a shift is counted from what is committed, and nothing is: those partitions are left out, and the plan says so.
 * Throws INVALID_ARGUMENT when no other is left.
 */
function leavingOut(survey: Survey, wishes: readonly (Wish | null)[], to: RewindTarget): Survey {
  const none = survey.partitions.filter((_, i) => wishes[i] === null)
  if (none.length === 0) return survey
  const shift = typeof to === 'object' && 'shift' in to ? to.shift : 0
  const names = none.map(({ topic, partition }) => `${topic}-${partition}`).join(', ')
  const message = `no committed offset to count ${shift} from: ${names}`
  if (none.length === survey.partitions.length) {
    throw new PlayheadError('INVALID_ARGUMENT', message, { group: survey.group })
  }
  return { ...survey, warnings: [...survey.warnings, `left out, as there is ${message}`] }
}

/** Plans to take rewinds back: each partition to where its owner said that it stood. */
export async function planUndo(
  cluster: Cluster,
  group: string,
  options: RewindScope & WaitOptions & { readonly id?: Sequence | undefined } = {}
): Promise<RewindPlan> {
  const survey = await surveyOf(cluster, group, options, options)
  const led = await ledGroup(cluster, group, options)
  if (led !== null) return planLedUndo(cluster, survey, led, options.id)
  const now = cluster.env.clock.now()
  const latest = survey.partitions.reduce((last, { entry }) => {
    return entry && entry.sequence > last && undoable(entry.state) ? entry.sequence : last
  }, '')
  const id = (options.id ?? latest).slice(0, 17)
  const planned = survey.partitions.flatMap(known => {
    const { commit, entry } = known
    const to = entry?.sequence.startsWith(id) && id !== '' ? undoTarget(commit, entry) : null
    return to === null ? [] : [planPartition(known, to, now)]
  })
  if (planned.length === 0) throw nothingToUndo(group)
  return planOf('rewind', survey, planned)
}

/** The controller knows where each partition stood. */
function planLedUndo(
  cluster: Cluster,
  survey: Survey,
  { rewinds }: LedGroup,
  id: Sequence | undefined
): RewindPlan {
  const now = cluster.env.clock.now()
  const took = rewinds.filter(({ state }) => state !== cancelledState)
  const newest = sequenceOf(newestId(took))
  const undone = new Map(
    took
      .filter(({ rewindId }) => sequenceOf(rewindId) === (id ?? newest))
      .map(rewind => [keyOf(rewind), rewind.previousOffset])
  )
  const planned = survey.partitions.flatMap(known => {
    const to = undone.get(keyOf(known)) ?? -1
    return to < 0 ? [] : [planPartition(known, to, now)]
  })
  if (planned.length === 0) throw nothingToUndo(survey.group)
  return planOf('rewind', survey, planned)
}

function nothingToUndo(group: string): PlayheadError {
  const message = `group '${group}' has no rewind that could be undone`
  return new PlayheadError('REWIND_REFUSED', message, { group })
}

function undoable(state: 'pending' | 'done' | 'cancelled'): boolean {
  return state !== 'cancelled'
}

function isExact(to: RewindTarget): to is readonly TopicPartitionOffset[] {
  return Array.isArray(to)
}

function planOf(
  kind: RewindPlan['kind'],
  survey: Survey,
  partitions: readonly PlannedPartition[]
): RewindPlan {
  const { group, ledger, warnings } = survey
  const plan = { group, ledger, kind, partitions, warnings }
  const objections = refusals(plan, false).map(({ why }) => why)
  return { ...plan, warnings: [...warnings, ...objections] }
}

async function surveyOf(
  cluster: Cluster,
  group: string,
  which: RewindScope,
  options: WaitOptions
): Promise<Survey> {
  const { ledger = ledgerOf(group) } = which
  const [[description], topics] = await Promise.all([
    settledGroup(cluster, group, options),
    cluster.listTopics(options)
  ])
  // A reset would make the group, and a mistyped name would look like a success.
  if (!description || (description.state === 'Dead' && !which.create)) {
    const message = `there is no group '${group}': it has neither members nor offsets`
    throw new PlayheadError('UNKNOWN_GROUP', message, { group })
  }
  const known = new Map(topics.map(topic => [topic.topic, topic]))
  const idOf = (topic: string) => known.get(topic)?.topicId ?? null
  const slots = await readSlots(cluster, group, ledger, null, idOf, options)
  const partitions = chosen(which, known, slots, description)
  if (partitions.length === 0) throw unknownGroup(group)
  const logs = await logsOf(cluster, partitions, options)
  const owners = ownersOf(description.members)
  return {
    group,
    ledger,
    description,
    partitions: partitions.map(({ topic, partition }) => {
      const key = keyOf({ topic, partition })
      const { commit = null, entry = null } = slots.get(key) ?? {}
      const { start: logStart = 0, end: logEnd = 0 } = logs.get(key) ?? {}
      const owner = ownerOf(owners.get(key))
      const topicId = idOf(topic) ?? ''
      return { topic, topicId, partition, owner, commit, entry, logStart, logEnd }
    }),
    warnings: await warningsAbout(cluster, description, options)
  }
}

export function ownerOf(member: GroupMember | undefined): Owner | null {
  if (!member) return null
  const { memberId, clientId, host, rewindable } = member
  return { memberId, clientId, host, rewindable }
}

/** A classic group's members show neither assignment nor user data while it rebalances: that is waited for. */
export async function settledGroup(
  cluster: Cluster,
  group: string,
  options: WaitOptions
): Promise<readonly GroupDescription[]> {
  const deadline = cluster.env.clock.monotonic() + cluster.within(options).timeoutMs / 2
  for (let waitMs = 50; ; waitMs = Math.min(2 * waitMs, 500)) {
    const found = await describeGroups(cluster, [group], options)
    const rebalancing = found.some(({ type, state }) => {
      return (
        type === 'classic' && (state === 'PreparingRebalance' || state === 'CompletingRebalance')
      )
    })
    if (!rebalancing || cluster.env.clock.monotonic() + waitMs > deadline) return found
    await sleep(cluster.env.clock, waitMs, [cluster.closing, options.signal])
  }
}

function chosen(
  which: RewindScope,
  topics: ReadonlyMap<string, TopicMetadata>,
  slots: ReadonlyMap<string, Slots>,
  description: GroupDescription
): readonly TopicPartition[] {
  const wanted = new Map<string, TopicPartition>()
  const add = ({ topic, partition }: TopicPartition) =>
    wanted.set(keyOf({ topic, partition }), { topic, partition })
  for (const topic of which.topics ?? []) {
    for (const partition of topicNamed(topics, topic).partitions) add(partition)
  }
  for (const { topic, partition } of which.partitions ?? []) {
    const { partitions } = topicNamed(topics, topic)
    if (!partitions[partition]) {
      const message = `topic '${topic}' has no partition ${partition}: it has ${partitions.length}`
      throw new PlayheadError('UNKNOWN_PARTITION', message, { topic, partition })
    }
    add({ topic, partition })
  }
  if (!which.topics && !which.partitions) {
    const all = [...slots.values(), ...description.members.flatMap(member => member.partitions)]
    for (const found of all) if (topics.get(found.topic)?.partitions[found.partition]) add(found)
  }
  return [...wanted.values()].sort((a, b) => {
    return a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition
  })
}

function topicNamed(topics: ReadonlyMap<string, TopicMetadata>, name: string): TopicMetadata {
  const topic = topics.get(name)
  if (topic) return topic
  throw new PlayheadError('UNKNOWN_TOPIC', `topic '${name}' doesn't exist`, { topic: name })
}

async function warningsAbout(
  cluster: Cluster,
  { members, group }: GroupDescription,
  options: WaitOptions
): Promise<readonly string[]> {
  const foreign = members.filter(member => !member.rewindable)
  if (members.length > 0) {
    if (foreign.length === 0) return []
    const names = few(foreign.map(({ memberId, host }) => `${memberId} at ${host}`))
    return [`members that take no part in rewinds, and may be given any partition: ${names}`]
  }
  // A commit to a group that was empty for longer than the retention is dropped at the next sweep.
  return [
    `group '${group}' has no members: its offsets expire after ${await retention(cluster, group, options)}`
  ]
}

async function retention(cluster: Cluster, group: string, options: WaitOptions): Promise<string> {
  const name = 'offsets.retention.minutes'
  try {
    const broker = await cluster.coordinator({ group }, options)
    const [config] = await describeConfigs(cluster, { broker }, [name], options)
    return `${config?.value ?? '10080'} minutes`
  } catch (error) {
    if (!(error instanceof PlayheadError) || error.code === 'ABORTED') throw error
    return `the broker's ${name} (which could not be read: ${error.message})`
  }
}

function unknownGroup(group: string): PlayheadError {
  const message = `group '${group}' has neither offsets nor members: name topics or partitions`
  return new PlayheadError('UNKNOWN_GROUP', message, { group })
}

interface Wish {
  readonly offset: number
  readonly timestamp?: number | null
}

/** The offset that a target means in each partition, not yet cut to the log; null: it means none there. */
async function resolve(
  cluster: Cluster,
  partitions: readonly Known[],
  to: RewindTarget,
  now: number,
  options: WaitOptions
): Promise<readonly (Wish | null)[]> {
  if (to === 'earliest') return partitions.map(p => ({ offset: p.logStart }))
  if (to === 'latest') return partitions.map(p => ({ offset: p.logEnd }))
  if (isExact(to)) {
    const exact = new Map(to.map(p => [keyOf(p), checked(p.offset)]))
    return partitions.map(p => ({ offset: exact.get(keyOf(p)) ?? p.logEnd }))
  }
  if ('offset' in to) {
    const offset = checked(to.offset)
    return partitions.map(() => ({ offset }))
  }
  if ('shift' in to) return partitions.map(p => shifted(p, to.shift, now))
  if ('group' in to) return await whereGroupIs(cluster, partitions, to.group, now, options)
  return await atTime(cluster, partitions, timestampOf(to, now), options)
}

function checked(offset: number): number {
  if (Number.isSafeInteger(offset) && offset >= 0) return offset
  throw new PlayheadError('INVALID_ARGUMENT', `${offset} is not an offset`)
}

function shifted({ commit, entry }: Known, shift: number, now: number): Wish | null {
  if (!Number.isSafeInteger(shift)) {
    throw new PlayheadError('INVALID_ARGUMENT', `${shift} is not a number of offsets`)
  }
  const { offset } = effective(commit, entry, now)
  return offset === null ? null : { offset: offset + shift }
}

async function whereGroupIs(
  cluster: Cluster,
  partitions: readonly Known[],
  other: string,
  now: number,
  options: WaitOptions
): Promise<readonly Wish[]> {
  const ids = new Map(partitions.map(({ topic, topicId }) => [topic, topicId]))
  const idOf = (topic: string) => ids.get(topic) ?? null
  const slots = await readSlots(cluster, other, ledgerOf(other), partitions, idOf, options)
  return partitions.map(({ topic, partition }) => {
    const { commit = null, entry = null } = slots.get(keyOf({ topic, partition })) ?? {}
    const { offset } = effective(commit, entry, now)
    if (offset !== null) return { offset }
    const message = `group '${other}' has no committed offset of ${topic}-${partition}`
    throw new PlayheadError('INVALID_ARGUMENT', message, { topic, partition, group: other })
  })
}

async function atTime(
  cluster: Cluster,
  partitions: readonly Known[],
  timestamp: number,
  options: WaitOptions
): Promise<readonly Wish[]> {
  const queries = partitions.map(({ topic, partition }) => ({ topic, partition, timestamp }))
  const outcomes = await listOffsets(cluster, queries, options)
  return outcomes.map((outcome, i): Wish => {
    if (outcome.error) throw outcome.error
    const found: ListedOffset = outcome.value
    // No record is as young as that: the end.
    if (found.offset < 0) return { offset: partitions[i]?.logEnd ?? 0 }
    return { offset: found.offset, timestamp: found.timestamp }
  })
}
