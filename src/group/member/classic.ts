/**
 * The member's half of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup. One of the members, the leader,
 * assigns partitions to all.
 *
 * Whenever somebody comes or goes, all members join again; a heartbeat's answer tells them to. With an assignor that
 * doesn't know what members have ('range', 'roundrobin') they give up everything first. With 'cooperative-sticky'
 * (KIP-429) they go on reading while they join and say what they have; the leader gives nobody what another has; who
 * sees that something is no longer meant for it gives that up, in its own time, and joins once more, and in that
 * generation it goes to its new owner.
 *
 * To give up in order means: handlers end, what they processed is committed, then it is released. Heartbeats go on
 * meanwhile. While it joins, a member commits with the generation before, which the coordinator takes until the last
 * member has joined; from then until the leader has assigned it refuses, and the commit is tried again.
 *
 * Facts change state, `apply` (classic-state.ts) alone applies them. Times are monotonic milliseconds.
 */
import { assert, unreachable } from '../../base/assert.ts'
import { PlayheadError } from '../../base/error.ts'
import { KafkaError } from '../../protocol/errors.ts'
import { assign, sameRacks, topicsOf } from './classic-leader.ts'
import { beatRequest, lineRequest } from './classic-requests.ts'
import { leasesIn } from './classic-words.ts'
import {
  apply,
  type ClassicAnswer,
  type ClassicMember,
  type ClassicRequest,
  type Counted,
  type Fact,
  isCooperative,
  type JoinAnswer,
  type LineKind
} from './classic-state.ts'
import {
  type Decision,
  type Lease,
  leaseKey,
  type Leases,
  type MemberAction,
  type MemberEvent,
  tooSlow,
  without
} from './protocol.ts'
import { offered } from './strategies.ts'

export type ClassicEvent =
  | Exclude<MemberEvent<ClassicAnswer>, { readonly on: 'unanswered' }>
  /** What partitions there are now, as far as is known. A leader looks whether its assignment still covers all. */
  | ({ readonly on: 'topics' } & Counted)
  /** The coordinator answered something else than a heartbeat with: it knows no such member. Ask. */
  | { readonly on: 'doubted' }

/** Back-off between requests that fail: doubles from the first to the last of these. */
const retryBackoffMs = 100
const retryBackoffMaxMs = 2_000

export function decide(
  member: ClassicMember,
  event: ClassicEvent,
  now: number
): Decision<Fact, ClassicRequest> {
  const turn = new Turn(member, now)
  turn.on(event)
  return turn
}

/** One decision in the making: facts take effect as they are found, so that what follows sees them. */
class Turn implements Decision<Fact, ClassicRequest> {
  readonly facts: Fact[] = []
  readonly actions: MemberAction<ClassicRequest>[] = []
  private member: ClassicMember
  private readonly now: number

  constructor(member: ClassicMember, now: number) {
    this.member = member
    this.now = now
  }

  on(event: ClassicEvent): void {
    const { phase, beat } = this.member
    switch (event.on) {
      case 'start':
        if (phase === 'idle') this.join()
        break
      case 'wake':
        if (this.now >= this.member.giveUpBy) this.expelled(false, tooSlow)
        break
      case 'answered':
        this.answered(event.answer)
        break
      case 'unable':
        this.unable(event.error)
        break
      case 'released':
        this.released(event.leases)
        break
      case 'subscribed':
        this.subscribed(event)
        break
      case 'topics':
        this.topics(event)
        break
      case 'doubted':
        if (this.member.epoch >= 0) this.fact({ is: 'beatSoon', at: this.now })
        break
      case 'overdue':
        this.overdue()
        break
      case 'caughtUp':
        if (phase !== 'overdue') break
        // A leave that hasn't gone out never will: this is still the member that the coordinator knows.
        if (beat?.kind === 'leave') this.fact({ is: 'named', memberId: '' })
        this.join()
        break
      case 'close':
        this.close()
        break
      default:
        unreachable(event)
    }
    this.sendWhatIsDue()
  }

  // Answers

  private answered(answer: ClassicAnswer): void {
    switch (answer.to) {
      case 'join':
        return this.joinAnswered(answer.body)
      case 'count':
        return this.counted(answer.body)
      case 'sync':
        return this.syncAnswered(answer.body)
      case 'heartbeat':
        return this.heartbeatAnswered(answer.body?.errorCode ?? null)
      case 'leave':
        return this.leaveAnswered(answer.body?.errorCode ?? null)
      default:
        unreachable(answer)
    }
  }

  /** Ends the request under way. Undefined: its answer is about something that is no more. */
  private lineEnded(kind: LineKind): { readonly at: number } | undefined {
    const { line, phase, epoch } = this.member
    assert(line?.kind === kind, 'an answer is to the request under way')
    this.fact({ is: 'lineFree' })
    const current = phase === (kind === 'join' ? 'joining' : 'syncing')
    if (current && line.generation === epoch) return line
    // Expelled while it waited: who is to join now waited for it.
    if (phase === 'joining' && this.member.lineAt === Infinity) this.join()
    return undefined
  }

  private joinAnswered(answer: JoinAnswer | null): void {
    const flight = this.lineEnded('join')
    if (flight === undefined) return this.lateJoin(answer)
    if (answer === null) {
      // It may have gone through: a heartbeat tells whether the group is past this member's generation.
      if (this.member.epoch >= 0) this.fact({ is: 'beatSoon', at: this.now })
      return this.lineFailed()
    }
    switch (answer.errorCode) {
      case KafkaError.NONE:
        return this.joined(answer, flight.at)
      case KafkaError.MEMBER_ID_REQUIRED:
        this.fact({ is: 'named', memberId: answer.memberId })
        return this.join()
      default:
        this.refused(answer.errorCode)
    }
  }

  /** The answer to a join that is no longer wanted: the coordinator may have made a member of it, or meant to. */
  private lateJoin(answer: JoinAnswer | null): void {
    const { phase, memberId, config } = this.member
    if (memberId === '' && config.instanceId === null) {
      const code = answer?.errorCode
      const named = code === KafkaError.NONE || code === KafkaError.MEMBER_ID_REQUIRED
      if (answer !== null && named) this.fact({ is: 'named', memberId: answer.memberId })
      if (phase === 'leaving' && !named) return this.left()
      if (named && phase !== 'joining') this.fact({ is: 'beatSoon', at: this.now })
    }
  }

  private joined(answer: JoinAnswer, sentAt: number): void {
    const { memberId, generationId: generation, leader, members, skipAssignment } = answer
    const { protocolName } = answer
    const strategy = offered(this.member.config.assignors, protocolName ?? '')
    if (strategy === undefined) {
      return this.fail(KafkaError.INCONSISTENT_GROUP_PROTOCOL, `it assigns by '${protocolName}'`)
    }
    this.fact({
      is: 'joined',
      memberId,
      generation,
      assignor: strategy.name,
      leads: leader === memberId ? members : null,
      skipsAssignment: skipAssignment,
      sentAt,
      at: this.now
    })
    this.fact({ is: 'good', sentAt })
  }

  private counted(counted: Counted | null): void {
    if (this.lineEnded('count') === undefined) return
    const { leads, assignor, skipsAssignment, config } = this.member
    const strategy = offered(config.assignors, assignor ?? '')
    if (counted === null || leads === null || strategy === undefined) return this.lineFailed()
    const { counts, racks } = counted
    try {
      const assignments = skipsAssignment ? [] : assign(strategy, leads, counts, racks)
      this.fact({ is: 'planned', counted, assignments, at: this.now })
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      this.fail(KafkaError.UNSUPPORTED_ASSIGNOR, error.message, error)
    }
  }

  private syncAnswered(answer: { errorCode: number; assignment: Buffer } | null): void {
    const flight = this.lineEnded('sync')
    if (flight === undefined) return
    if (answer === null) return this.lineFailed()
    const { errorCode } = answer
    if (errorCode === KafkaError.REBALANCE_IN_PROGRESS) return this.mustRejoin()
    if (errorCode !== KafkaError.NONE) return this.refused(errorCode)
    try {
      this.fact({ is: 'synced', target: leasesIn(answer.assignment), at: this.now })
    } catch (error) {
      if (!(error instanceof PlayheadError)) throw error
      return this.fail(KafkaError.UNKNOWN_SERVER_ERROR, `its leader sent ${error.message}`)
    }
    this.fact({ is: 'good', sentAt: flight.at })
    this.reconcile()
    if (this.member.joinsAgain) this.rebalance()
  }

  private heartbeatAnswered(code: number | null): void {
    const { beat, epoch } = this.member
    assert(beat?.kind === 'heartbeat', 'an answer is to the request under way')
    if (beat.generation !== epoch || epoch < 0) return this.fact({ is: 'beatFree' })
    if (code === null) return this.beatFailed()
    this.fact({ is: 'beatFree' })
    switch (code) {
      case KafkaError.NONE:
        this.fact({ is: 'waitedFor', since: null })
        return this.fact({ is: 'good', sentAt: beat.at })
      case KafkaError.REBALANCE_IN_PROGRESS:
        return this.mustRejoin(beat.at)
      case KafkaError.ILLEGAL_GENERATION:
        // The join under way was accepted, and its answer is behind this one.
        if (this.member.line?.kind === 'join') return
        return this.expelled(false)
      case KafkaError.UNKNOWN_MEMBER_ID:
        return this.expelled(true)
      case KafkaError.NOT_COORDINATOR:
      case KafkaError.COORDINATOR_NOT_AVAILABLE:
        this.actions.push({ do: 'findCoordinator' })
        return this.beatFailed()
      case KafkaError.FENCED_INSTANCE_ID:
      case KafkaError.GROUP_AUTHORIZATION_FAILED:
        return this.fail(code, '')
      default:
        this.beatFailed()
    }
  }

  private leaveAnswered(code: number | null): void {
    const { beat, phase } = this.member
    assert(beat?.kind === 'leave', 'an answer is to the request under way')
    this.fact({ is: 'beatFree' })
    if (phase !== 'leaving' && phase !== 'overdue') return
    switch (code) {
      case KafkaError.NOT_COORDINATOR:
      case KafkaError.COORDINATOR_NOT_AVAILABLE:
        this.actions.push({ do: 'findCoordinator' })
        return this.beatFailed()
      case KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
      case null:
        return this.beatFailed()
      default:
        this.fact({ is: 'named', memberId: '' })
        if (phase === 'leaving') this.left()
    }
  }

  /** JoinGroup or SyncGroup was refused. */
  private refused(code: number): void {
    switch (code) {
      case KafkaError.UNKNOWN_MEMBER_ID:
        return this.expelled(true)
      case KafkaError.ILLEGAL_GENERATION:
        return this.expelled(false)
      case KafkaError.NOT_COORDINATOR:
      case KafkaError.COORDINATOR_NOT_AVAILABLE:
        this.actions.push({ do: 'findCoordinator' })
        return this.lineFailed()
      case KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
      case KafkaError.REBALANCE_IN_PROGRESS:
      case KafkaError.REQUEST_TIMED_OUT:
      case KafkaError.NETWORK_EXCEPTION:
      case KafkaError.THROTTLING_QUOTA_EXCEEDED:
      case KafkaError.UNKNOWN_SERVER_ERROR:
        return this.lineFailed()
      default:
        this.fail(code, '')
    }
  }

  // Rebalances

  /** The round began after what was sent before this and was answered without news of it. */
  private mustRejoin(sentAt = -Infinity): void {
    const { lastGoodAt: since, phase, line } = this.member
    this.fact({ is: 'good', sentAt })
    // Who joins of its own accord may be waited for, too: its JoinGroup, on another connection, may never get there.
    this.fact({ is: 'waitedFor', since })
    // The answer to a SyncGroup under way says the same.
    if (phase !== 'joining' && line === null) this.rebalance()
  }

  /** JoinGroup, now. */
  private join(): void {
    this.fact({ is: 'joining', at: this.now })
  }

  /** The group rebalances: joins again, at once or when everything is given up. */
  private rebalance(): void {
    if (isCooperative(this.member)) return this.join()
    if (!this.member.joinsAgain) this.fact({ is: 'mustJoinAgain' })
    this.recall(without(this.member.owned, this.member.recalled))
    if (this.member.owned.size === 0) this.join()
  }

  /** Brings what is owned nearer to the target. What is recalled and wanted again is granted once it is released. */
  private reconcile(): void {
    const { owned, recalled, target } = this.member
    if (target === null) return
    this.recall(without(without(owned, target), recalled))
    const grant = without(target, owned)
    if (grant.size === 0) return
    this.fact({ is: 'granted', leases: grant })
    this.actions.push({ do: 'assign', leases: [...grant.values()] })
  }

  private recall(leases: Leases): void {
    if (leases.size === 0) return
    this.fact({ is: 'recalled', leases })
    this.actions.push({ do: 'revoke', leases: [...leases.values()] })
  }

  private released(leases: readonly Lease[]): void {
    const { recalled, phase, line } = this.member
    // A lease that was lost meanwhile is nobody's business any more.
    const ours = new Map(leases.filter(l => recalled.has(leaseKey(l))).map(l => [leaseKey(l), l]))
    if (ours.size === 0) return
    this.fact({ is: 'released', leases: ours })
    if (!isCooperative(this.member)) {
      if (this.member.owned.size === 0 && this.member.joinsAgain) this.join()
      return
    }
    if (phase === 'member') {
      this.reconcile()
      const free = without(ours, this.member.owned)
      // Once for all of them: each time costs the whole group a round.
      if (free.size > 0) this.fact({ is: 'mustJoinAgain' })
      if (this.member.recalled.size === 0 && this.member.joinsAgain) this.join()
    } else if (line !== null || phase === 'syncing') {
      // It joined as their owner.
      this.fact({ is: 'mustJoinAgain' })
    }
  }

  private subscribed({ subscription }: Extract<ClassicEvent, { on: 'subscribed' }>): void {
    const { phase, line } = this.member
    if (phase === 'left' || phase === 'failed') return
    this.fact({ is: 'subscribed', subscription })
    if (phase === 'member') this.rebalance()
    else if (line !== null || phase === 'syncing') this.fact({ is: 'mustJoinAgain' })
  }

  private topics({ counts, racks }: Counted): void {
    const { phase, plan, leads } = this.member
    if (phase !== 'member' || plan === null || leads === null) return
    const changed = topicsOf(leads).some(
      topic =>
        (counts.get(topic) ?? 0) !== (plan.counts.get(topic) ?? 0) ||
        !sameRacks(topic, racks, plan.racks)
    )
    if (changed && !this.member.joinsAgain) this.rebalance()
  }

  // Ends

  private expelled(forgetId: boolean, why = 'the coordinator no longer knows this member'): void {
    // Right after a join was refused this way a pause keeps it from a hot loop.
    const again = this.member.phase === 'joining' && this.member.epoch < 0
    this.loseAll(why)
    this.fact({ is: 'expelled', forgetId })
    if (this.member.line !== null) return this.fact({ is: 'joining', at: Infinity })
    this.join()
    if (again) return this.lineFailed()
    this.actions.push({ do: 'rejoin', why })
  }

  private loseAll(why: string): void {
    const { owned } = this.member
    if (owned.size > 0) this.actions.push({ do: 'lose', leases: [...owned.values()], why })
  }

  private fail(code: number, message: string, error?: PlayheadError): void {
    this.loseAll('the group refused this member')
    // By its own decision: the others wait for its assignment.
    this.fact({ is: 'refused', at: error === undefined ? Infinity : this.now })
    this.actions.push({ do: 'fail', code, message, ...(error === undefined ? {} : { error }) })
  }

  private unable(error: PlayheadError): void {
    const { phase } = this.member
    if (phase === 'left' || phase === 'failed') return
    if (phase === 'leaving') return this.left()
    this.loseAll(error.message)
    this.fact({ is: 'refused', at: Infinity })
    this.actions.push({ do: 'fail', code: KafkaError.NONE, message: '', error })
  }

  private overdue(): void {
    const { phase } = this.member
    if (phase !== 'member' && phase !== 'joining' && phase !== 'syncing') return
    this.loseAll('a handler took longer than maxProcessingMs')
    this.fact({ is: 'overdue', at: this.now })
  }

  private close(): void {
    const { phase, memberId, config, line, beat } = this.member
    if (phase === 'left' || phase === 'leaving') return
    // A join without an answer may have made a member that has no name here yet.
    const unnamed = memberId === '' && line?.kind === 'join'
    const goes = phase === 'overdue' && beat?.kind === 'leave'
    if (phase === 'failed' || config.instanceId !== null) return this.left()
    if (memberId === '' && !unnamed && !goes) return this.left()
    this.fact({ is: 'leaving', at: goes ? Infinity : this.now })
  }

  private left(): void {
    this.fact({ is: 'left' })
    this.actions.push({ do: 'left' })
  }

  // Sending

  private lineFailed(): void {
    this.fact({ is: 'lineFailed', retryAt: this.now + this.backoff() })
  }

  private beatFailed(): void {
    this.fact({ is: 'beatFailed', retryAt: this.now + this.backoff() })
  }

  private backoff(): number {
    return Math.min(retryBackoffMaxMs, retryBackoffMs * 2 ** this.member.failures)
  }

  private sendWhatIsDue(): void {
    const { line, lineAt, beat, beatAt } = this.member
    if (line === null && lineAt <= this.now) {
      const request = lineRequest(this.member)
      this.actions.push({ do: 'request', request })
      this.fact({ is: 'sentLine', kind: request.kind, at: this.now })
    }
    if (beat === null && beatAt <= this.now) {
      const request = beatRequest(this.member)
      this.actions.push({ do: 'request', request })
      this.fact({ is: 'sentBeat', kind: request.kind, at: this.now })
    }
  }

  private fact(fact: Fact): void {
    this.facts.push(fact)
    this.member = apply(this.member, fact)
  }
}
