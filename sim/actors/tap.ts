/**
 * The coordinator's probe: sees each request and its answer as the embedded broker handles it, and takes down what that
 * means for groups: heartbeats answered, assignments told, offsets committed, entries in ledgers.
 *
 * `BrokerCluster.answer` is where every request passes; it is wrapped once for all runs of this process.
 */
import { BrokerCluster } from '../../src/broker/cluster.ts'
import type { Context } from '../../src/broker/handler.ts'
import { leasesIn } from '../../src/group/member/classic-words.ts'
import { ConsumerGroupHeartbeat } from '../../src/protocol/api/consumer-group-heartbeat.ts'
import { ControllerHeartbeat } from '../../src/protocol/api/controller-heartbeat.ts'
import { Heartbeat } from '../../src/protocol/api/heartbeat.ts'
import { JoinGroup } from '../../src/protocol/api/join-group.ts'
import { LeaveGroup } from '../../src/protocol/api/leave-group.ts'
import { OffsetCommit } from '../../src/protocol/api/offset-commit.ts'
import { OffsetFetch } from '../../src/protocol/api/offset-fetch.ts'
import { RegisterConsumer } from '../../src/protocol/api/register-consumer.ts'
import { SyncGroup } from '../../src/protocol/api/sync-group.ts'
import { UnregisterConsumer } from '../../src/protocol/api/unregister-consumer.ts'
import { parseCommit, parseEntry, sequenceOf } from '../../src/protocol/embedded/rewind-envelope.ts'
import { KafkaError } from '../../src/protocol/errors.ts'
import type { Api, RequestRead, ResponseWritten } from '../../src/protocol/schema.ts'
import type { Tp } from '../history/events.ts'
import type { Process } from '../world/process.ts'
import type { World } from '../world/world.ts'

const ledgerSuffix = '.rewind'

/** Answers to a heartbeat from which a member knows that it is one. */
const lively: readonly number[] = [
  KafkaError.NONE,
  KafkaError.GROUP_CHANGED,
  KafkaError.TOPICS_CHANGED,
  KafkaError.PARTITIONS_REWOUND
]

/** One run's view of its broker; a broker that is restarted keeps it. */
export class Tap {
  readonly #world: World
  /** What the coordinator last told each member to own, per group. */
  readonly #told = new Map<string, Map<string, readonly string[]>>()
  /** By ledger and partition: the entry seen last. */
  readonly #entries = new Map<string, string | null>()
  /** By group and member: what its last registration keeps. */
  readonly #kept = new Map<string, readonly string[]>()
  /** By member and start of a broker: the newest connection that it was heard on. */
  readonly #newest = new Map<string, number>()
  readonly #topicNames = new Map<string, string>()
  /** What is known of each partition's newest rewind by a controller. */
  readonly #rewinds = new Map<string, string>()
  #commits = 0

  constructor(world: World) {
    this.#world = world
  }

  /** For a trace: each request, and its answer when it is there. */
  traced(
    api: Api,
    request: unknown,
    reply: unknown,
    { node, clientId, connection }: Context
  ): void {
    if (!this.#world.tells) return
    const name = `${clientId} > broker ${node} #${connection.id} ${api.name}`
    this.#world.tell(() => `${name} ${textOf(request)}`)
    Promise.resolve(reply).then(
      value => this.#world.tell(() => `${name} answer ${textOf(value)}`),
      error => this.#world.tell(() => `${name} fails ${String(error)}`)
    )
  }

  /** The request was handled, and answered so. */
  answered(process: Process, api: Api, request: unknown, reply: unknown, context: Context): void {
    if (api === ConsumerGroupHeartbeat) {
      this.#heartbeat(
        process,
        request as RequestRead<typeof ConsumerGroupHeartbeat>,
        reply as ResponseWritten<typeof ConsumerGroupHeartbeat>,
        context
      )
    } else if (api === ControllerHeartbeat) {
      const { errorCode } = reply as ResponseWritten<typeof ControllerHeartbeat>
      const { maxWaitMs: everyMs } = request as RequestRead<typeof ControllerHeartbeat>
      if (lively.includes(errorCode))
        this.#world.saw(process, { k: 'heartbeat', member: context.clientId, everyMs })
    } else if (api === RegisterConsumer) {
      this.#registered(
        process,
        request as RequestRead<typeof RegisterConsumer>,
        reply as ResponseWritten<typeof RegisterConsumer>,
        context
      )
    } else if (api === OffsetFetch) {
      this.#read(process, reply as ResponseWritten<typeof OffsetFetch>, context)
    } else if (api === Heartbeat || api === JoinGroup || api === SyncGroup) {
      const { errorCode } = reply as ResponseWritten<typeof Heartbeat>
      if (api === SyncGroup && errorCode === 0) {
        const { groupId } = request as RequestRead<typeof SyncGroup>
        this.#synced(process, groupId, reply as ResponseWritten<typeof SyncGroup>, context)
      }
      if (api === JoinGroup && errorCode === 0) {
        this.#joined(
          process,
          request as RequestRead<typeof JoinGroup>,
          reply as ResponseWritten<typeof JoinGroup>,
          context
        )
        return
      }
      // A classic member hears of a rebalance in this way; a SyncGroup that is told so keeps no session alive.
      const ofRound = api === Heartbeat && errorCode === KafkaError.REBALANCE_IN_PROGRESS
      if (errorCode === 0 || ofRound)
        this.#world.saw(process, { k: 'heartbeat', member: context.clientId })
    }
  }

  /** Whether the client has opened another connection since: this one it has closed, and what it sent there was under way. */
  #isLate({ incarnation }: Process, { clientId, node, connection }: Context): boolean {
    const key = `${clientId} at ${node}.${incarnation}`
    const newest = Math.max(this.#newest.get(key) ?? 0, connection.id)
    this.#newest.set(key, newest)
    return connection.id < newest
  }

  /** Rewinds of groups that a controller leads, once they are stored: as entries of a ledger. */
  rewinds(process: Process, groupId: string, { cluster }: Context): void {
    const members = cluster.groups.get(groupId)?.members
    if (members?.type !== 'controller') return
    for (const of of members.state.rewinds.values()) {
      for (const rewind of of.values()) {
        const { topic, partition, id, target, state, until, resume } = rewind
        const now = state === 'waiting' ? 'pending' : 'done'
        const tp = `${topic}:${partition}`
        const key = `${groupId} ${tp} ${id}`
        if (this.#rewinds.get(key) === now) continue
        this.#rewinds.set(key, now)
        cluster.groups.settled.then(
          () => {
            if (process.dead) return
            this.#world.saw(process, {
              k: 'ledger',
              group: groupId,
              tp,
              id: sequenceOf(id),
              target,
              state: now,
              ...(until >= 0 && { window: { until, resume } }),
              led: true
            })
          },
          () => {}
        )
      }
    }
  }

  /** A request has come. */
  asked(process: Process, api: Api, request: unknown, context: Context): void {
    if (api === RegisterConsumer) {
      this.#registering(process, request as RequestRead<typeof RegisterConsumer>, context)
    }
    const leaves =
      api === LeaveGroup ||
      api === UnregisterConsumer ||
      (api === ConsumerGroupHeartbeat && (request as { memberEpoch: number }).memberEpoch < 0)
    // Who closes has stopped by then, and says so once the answer is there.
    if (leaves) this.#yields(process, (request as { groupId: string }).groupId, [], context)
  }

  /** What a registration does not keep has been stopped; that it is another's is told with the answer, at times late. */
  #registering(
    process: Process,
    { groupId, kept }: RequestRead<typeof RegisterConsumer>,
    context: Context
  ): void {
    const keeps = (kept ?? []).flatMap(({ topicId, partitions }) =>
      partitions.map(partition => `${this.#nameOf(topicId, context)}:${partition}`)
    )
    this.#yields(process, groupId, keeps, context)
  }

  #yields(process: Process, groupId: string, keeps: readonly Tp[], context: Context): void {
    const member = context.clientId
    // What it kept before may have been asked back since.
    const key = `${groupId} ${member}`
    const had = [...(this.#told.get(groupId)?.get(member) ?? []), ...(this.#kept.get(key) ?? [])]
    this.#kept.set(key, keeps)
    const tps = [...new Set(had)].filter(tp => !keeps.includes(tp))
    if (tps.length > 0) this.#world.saw(process, { k: 'yielded', member, tps })
  }

  #joined(
    process: Process,
    { groupId: group, memberId: as }: RequestRead<typeof JoinGroup>,
    { memberId, generationId: epoch = -1 }: ResponseWritten<typeof JoinGroup>,
    { clientId: member }: Context
  ): void {
    const joins = as === ''
    this.#world.saw(process, { k: 'heartbeat', member, group, memberId, epoch, joins })
  }

  #registered(
    process: Process,
    { groupId, memberId: as }: RequestRead<typeof RegisterConsumer>,
    reply: ResponseWritten<typeof RegisterConsumer>,
    context: Context
  ): void {
    if (reply.errorCode !== KafkaError.NONE) return
    const member = context.clientId
    const { memberId = '', generationId: epoch = -1 } = reply
    const joins = as === ''
    this.#world.saw(process, { k: 'heartbeat', member, group: groupId, memberId, epoch, joins })
    const mine = reply.partitions.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition }) => `${topic}:${partition}`)
    )
    this.#tell(process, groupId, member, mine)
  }

  #synced(
    process: Process,
    groupId: string,
    { assignment }: ResponseWritten<typeof SyncGroup>,
    { clientId }: Context
  ): void {
    const mine = [...leasesIn(Buffer.concat([assignment].flat())).values()]
    const tps = mine.map(({ topic, partition }) => `${topic}:${partition}`)
    this.#tell(process, groupId, clientId, tps)
  }

  #tell(process: Process, groupId: string, member: string, mine: readonly string[]): void {
    const told = this.#told.get(groupId) ?? new Map<string, readonly string[]>()
    this.#told.set(groupId, told)
    for (const [other, tps] of told)
      told.set(
        other,
        tps.filter(tp => !mine.includes(tp))
      )
    told.delete(member)
    // What was told to somebody who is gone does not count again when this one gives it up.
    for (const [name, tps] of told) {
      if (tps.some(tp => mine.includes(tp)))
        told.set(
          name,
          tps.filter(tp => !mine.includes(tp))
        )
    }
    told.set(member, mine)
    const owners: Record<string, string> = {}
    for (const [name, tps] of told) for (const tp of tps) owners[tp] = name
    this.#world.saw(process, { k: 'group.gen', group: groupId, gen: 0, owners })
  }

  /** A commit is being handled: what became of it shows later, unless the broker ends before. */
  async committing(
    process: Process,
    request: RequestRead<typeof OffsetCommit>,
    reply: Promise<unknown>,
    context: Context
  ): Promise<void> {
    const commit = ++this.#commits
    const { groupId: group, memberId, generationIdOrMemberEpoch: epoch } = request
    this.#world.saw(process, { k: 'commit.try', commit, group, memberId, epoch })
    const { topics } = (await reply) as ResponseWritten<typeof OffsetCommit>
    if (process.dead) return
    request.topics.forEach(({ name, topicId, partitions }, i) => {
      const topic = name !== '' ? name : this.#nameOf(topicId, context)
      partitions.forEach((asked, j) => {
        if (topics[i]?.partitions[j]?.errorCode !== 0) return
        const tp = `${topic}:${asked.partitionIndex}`
        this.#committed(process, request.groupId, tp, asked, commit, context)
      })
    })
    this.#world.saw(process, { k: 'commit.end', commit })
  }

  #committed(
    process: Process,
    groupId: string,
    tp: string,
    asked: { readonly committedOffset: number; readonly committedMetadata: string | null },
    commit: number,
    { clientId, connection }: Context
  ): void {
    const { committedOffset: offset, committedMetadata: metadata } = asked
    if (groupId.endsWith(ledgerSuffix)) {
      return this.#entry(process, groupId, tp, offset, metadata)
    }
    this.#world.saw(process, {
      k: 'commit.applied',
      group: groupId,
      tp,
      offset,
      rewindId: parseCommit(metadata).mark?.sequence ?? null,
      member: clientId,
      connection: connection.id,
      commit
    })
  }

  /** Written, or told: what was written and not answered, as the broker ended, is seen when somebody reads it. */
  #entry(process: Process, ledger: string, tp: Tp, offset: number, metadata: string | null): void {
    const entry = parseEntry(metadata ?? '', offset)
    const key = `${ledger} ${tp}`
    if (entry === null || this.#entries.get(key) === metadata) return
    this.#entries.set(key, metadata)
    const group = ledger.slice(0, -ledgerSuffix.length)
    const { sequence: id, target, state, until, resume } = entry
    this.#world.saw(process, {
      k: 'ledger',
      group,
      tp,
      id,
      target,
      state,
      ...(until !== null && resume !== null && { window: { until, resume } })
    })
  }

  #read(process: Process, { groups }: ResponseWritten<typeof OffsetFetch>, context: Context): void {
    for (const { groupId, topics } of groups ?? []) {
      if (!groupId.endsWith(ledgerSuffix)) continue
      for (const { name, topicId, partitions } of topics) {
        for (const { partitionIndex, committedOffset: offset, metadata } of partitions) {
          const tp = `${name || this.#nameOf(topicId ?? '', context)}:${partitionIndex}`
          this.#entry(process, groupId, tp, offset, metadata)
        }
      }
    }
  }

  #heartbeat(
    process: Process,
    { groupId, memberEpoch }: RequestRead<typeof ConsumerGroupHeartbeat>,
    reply: ResponseWritten<typeof ConsumerGroupHeartbeat>,
    context: Context
  ): void {
    if (reply.errorCode !== 0) return
    const member = context.clientId
    // One that leaves has none any more.
    if (memberEpoch < 0) return this.#world.saw(process, { k: 'heartbeat', member })
    const { memberEpoch: epoch } = reply
    const memberId = reply.memberId ?? ''
    const joins = memberEpoch === 0
    const late = this.#isLate(process, context)
    this.#world.saw(process, {
      k: 'heartbeat',
      member,
      group: groupId,
      memberId,
      epoch,
      joins,
      late
    })
    if (!reply.assignment) return
    const mine = reply.assignment.topicPartitions.flatMap(({ topicId, partitions }) =>
      partitions.map(partition => `${this.#nameOf(topicId, context)}:${partition}`)
    )
    this.#tell(process, groupId, member, mine)
  }

  #nameOf(topicId: string, { cluster }: Context): string {
    const known = this.#topicNames.get(topicId)
    if (known !== undefined) return known
    const name = cluster.catalog.topicById(topicId)?.name ?? topicId
    this.#topicNames.set(topicId, name)
    return name
  }
}

function textOf(value: unknown): string {
  const text = JSON.stringify(value, (_, field: unknown) => {
    if (typeof field === 'bigint') return String(field)
    const { type, data } = (field ?? {}) as { readonly type?: unknown; readonly data?: number[] }
    if (type !== 'Buffer') return field
    // A batch begins with its offset.
    return `from ${data?.slice(4, 8).reduce((sum, byte) => sum * 256 + byte, 0)}`
  })
  return (text ?? '').slice(0, 600)
}

/** Which run's tap is on a broker, by the network of its process: of its Env the broker makes another. */
const taps = new WeakMap<object, { readonly process: Process; readonly tap: Tap }>()
let wrapped = false

/** From here on the requests of the broker in `process` are seen. */
export function putTap(process: Process, tap: Tap): void {
  taps.set(process.env.net, { process, tap })
  if (wrapped) return
  wrapped = true
  // oxlint-disable-next-line typescript/unbound-method -- called with the `this` it is called with
  const answer = BrokerCluster.prototype.answer
  BrokerCluster.prototype.answer = function (handler, request, context) {
    const reply = answer.call(this, handler, request, context)
    const found = taps.get(this.env.net)
    if (found === undefined) return reply
    const { process: its, tap: seen } = found
    seen.traced(handler.api, request, reply, context)
    const { groupId } = request as { readonly groupId?: unknown }
    if (typeof groupId === 'string') seen.rewinds(its, groupId, context)
    seen.asked(its, handler.api, request, context)
    if (handler.api === OffsetCommit) {
      const asked = request as unknown as RequestRead<typeof OffsetCommit>
      const done = Promise.resolve(reply)
      seen.committing(its, asked, done, context).catch(() => {})
    } else if (reply instanceof Promise) {
      reply.then(
        value => {
          // What it waited for may have made a rewind take place.
          if (typeof groupId === 'string') seen.rewinds(its, groupId, context)
          seen.answered(its, handler.api, request, value, context)
        },
        () => {}
      )
    } else seen.answered(its, handler.api, request, reply, context)
    return reply
  }
}
