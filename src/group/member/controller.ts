/**
 * The member's half of a group led by a controller. Two requests may be out at once: a heartbeat, which the controller
 * holds until it has something to say, and a registration, which is a member's one answer to whatever it is told.
 *
 * A registration says which partitions the member goes on delivering while it waits (`kept`). So nobody stops for a
 * round: what turns out to be another's is given up afterwards, by one more registration. A rewind stops its own
 * partitions first (`halt`), then registers without them, and finds them in the answer at their new offsets.
 *
 * Its state is in controller-state.ts.
 */
import { assert, unreachable } from '../../base/assert.ts'
import { KafkaError } from '../../protocol/errors.ts'
import type { ControllerHeartbeat } from '../../protocol/api/controller-heartbeat.ts'
import type { RegisterConsumer } from '../../protocol/api/register-consumer.ts'
import type { ResponseOf } from '../../protocol/schema.ts'
import { heartbeat, leave, registration } from './controller-requests.ts'
import {
  applyLed,
  firstIntervalMs,
  type LedAction,
  type LedAnswer,
  type LedEvent,
  type LedFact,
  type LedLease,
  type LedMember,
  type LedRequest,
  type LedRequestKind,
  never,
  nothingOwned
} from './controller-state.ts'
import {
  type Lease,
  type LeaseKey,
  leaseKey,
  leasesOf,
  type Leases,
  noLeases,
  tooSlow,
  without
} from './protocol.ts'

/** A heartbeat that is answered at once without news was replaced: not a reason to hurry. */
const calmMs = 100

export interface LedDecision {
  readonly facts: readonly LedFact[]
  readonly actions: readonly LedAction[]
}

export function decideLed(member: LedMember, event: LedEvent, now: number): LedDecision {
  const turn = new LedTurn(member, now)
  turn.on(event)
  return turn
}

/** One decision in the making: facts take effect as they are found, so that what follows sees them. */
class LedTurn implements LedDecision {
  readonly facts: LedFact[] = []
  readonly actions: LedAction[] = []
  private member: LedMember
  private readonly now: number

  constructor(member: LedMember, now: number) {
    this.member = member
    this.now = now
  }

  on(event: LedEvent): void {
    const { phase } = this.member
    switch (event.on) {
      case 'start':
        if (phase === 'idle') this.join()
        break
      case 'wake':
        if (this.now >= this.member.giveUpBy) this.rejoin(tooSlow)
        break
      case 'answered':
        this.answered(event.answer)
        break
      case 'unanswered':
        this.unanswered(event.kind)
        break
      case 'unable':
        if (phase !== 'left' && phase !== 'failed') this.unable(event, phase === 'leaving')
        break
      case 'released':
        this.released(event.leases)
        break
      case 'halted':
        this.halted(event.leases)
        break
      case 'subscribed':
        this.change({ subscription: event.subscription })
        if (phase === 'member' || phase === 'joining') this.change({ mustRegister: true })
        break
      case 'overdue':
        this.overdue()
        break
      case 'caughtUp':
        if (phase === 'overdue') this.join()
        break
      case 'close':
        this.close()
        break
      default:
        unreachable(event)
    }
    this.sendWhatIsDue()
    const { roundBy, recalledBy } = this.member
    this.change({ wakeAt: this.wakeAt(), giveUpBy: Math.min(roundBy, recalledBy) })
  }

  private answered(answer: LedAnswer): void {
    switch (answer.kind) {
      case 'register':
        return this.registered(answer.body)
      case 'heartbeat':
        return this.beaten(answer.body)
      case 'leave':
        return this.leaveAnswered(answer.body.errorCode)
    }
  }

  // Registering

  private registered(body: ResponseOf<typeof RegisterConsumer>): void {
    const { registering: kept, registeredAt, lastGoodAt, outlived, phase } = this.member
    assert(kept !== null, 'an answer is to the registration that is out')
    this.change({ registering: null })
    const { errorCode: code } = body
    // It was given up meanwhile; what it brought is left with the membership.
    if (phase !== 'member' && phase !== 'joining') return
    if (code === KafkaError.NONE || code === KafkaError.OFFSET_OUT_OF_RANGE) {
      const intervalMs = body.heartbeatIntervalMs > 0 ? body.heartbeatIntervalMs : firstIntervalMs
      const { memberId, generationId: epoch } = body
      const goodAt = Math.max(lastGoodAt, registeredAt)
      const good = { lastGoodAt: goodAt, failures: 0, heartbeatIntervalMs: intervalMs }
      const is = { phase: 'member', memberId, epoch, nextBeatAt: this.now } as const
      const isOfRound = epoch !== this.member.epoch
      this.change({ ...is, ...good, roundBy: never })
      // It said that we keep what we have lost since: the next one says that we do not.
      if (outlived) return this.change({ mustRegister: true })
      return this.takeUp(body, kept, isOfRound)
    }
    if (code === KafkaError.GROUP_CHANGED) return this.change({ mustRegister: true })
    this.change({ mustRegister: true })
    this.refused(code, body.errorMessage ?? '')
  }

  /** Compares what the controller says is ours with what we have. */
  private takeUp(
    body: ResponseOf<typeof RegisterConsumer>,
    kept: Leases,
    isOfRound: boolean
  ): void {
    const granted = new Map<LeaseKey, LedLease>()
    for (const lease of ledLeases(body)) granted.set(leaseKey(lease), lease)
    const { owned, recalled, halted } = this.member
    const moves: LedLease[] = []
    const starts: LedLease[] = []
    for (const [key, lease] of granted) {
      if (!owned.has(key)) starts.push(lease)
      else if (!kept.has(key) && halted.has(key)) moves.push(lease)
    }
    this.recalledUntil(without(kept, granted), isOfRound)
    const foreign = without(owned, granted)
    // What was stopped for a rewind and is not given again has been committed: there is nothing left to do.
    const lost = new Map([...foreign].filter(([key]) => !kept.has(key)))
    const recall = new Map([...foreign].filter(([key]) => kept.has(key) && !recalled.has(key)))
    if (lost.size > 0) {
      this.lose(lost, 'it went to another member, or waits for a transaction')
    }
    const moved = leasesOf(moves)
    this.change({
      halted: without(this.member.halted, moved),
      recalled: new Map([...this.member.recalled, ...recall])
    })
    if (moves.length > 0) this.actions.push({ do: 'move', leases: moves })
    if (recall.size > 0) this.actions.push({ do: 'revoke', leases: [...recall.values()] })
    if (starts.length > 0) {
      this.fact({ is: 'granted', leases: starts })
      this.actions.push({ do: 'assign', leases: starts })
    }
  }

  /**
   * What the last registration kept and is another's now has to be gone, and registered without, in time. The round
   * ended after that was sent, and after the last heartbeat that was told nothing.
   */
  private recalledUntil(recalled: Leases, isOfRound: boolean): void {
    const { config, lastGoodAt, recalledBy } = this.member
    if (recalled.size === 0) return this.change({ recalledBy: never })
    const until = lastGoodAt + config.registerTimeoutMs
    this.change({ recalledBy: isOfRound ? until : Math.min(recalledBy, until) })
  }

  private released(leases: readonly Lease[]): void {
    const given = new Map(
      leases.filter(l => this.member.recalled.has(leaseKey(l))).map(l => [leaseKey(l), l])
    )
    if (given.size === 0) return
    this.fact({ is: 'gone', leases: given })
    this.change({ mustRegister: true })
  }

  private halted(leases: readonly Lease[]): void {
    const { stopping, halted, phase } = this.member
    this.change({ stopping: without(stopping, leasesOf(leases)) })
    const ours = leases.some(lease => halted.has(leaseKey(lease)))
    if (ours && phase === 'member') this.change({ mustRegister: true })
  }

  // Heartbeats

  private beaten(body: ResponseOf<typeof ControllerHeartbeat>): void {
    const { phase, beatAt, heartbeatIntervalMs, registering, registeredAt } = this.member
    this.change({ beatOut: false })
    if (phase !== 'member') return
    const { errorCode: code } = body
    this.waitedFor(code)
    const lastGoodAt = Math.max(beatAt, this.member.lastGoodAt)
    const good = { lastGoodAt, failures: 0 }
    switch (code) {
      case KafkaError.NONE: {
        const early = this.now - beatAt < Math.min(calmMs, heartbeatIntervalMs / 2)
        return this.change({ ...good, nextBeatAt: early ? this.now + calmMs : this.now })
      }
      case KafkaError.GROUP_CHANGED:
      case KafkaError.TOPICS_CHANGED:
      case KafkaError.PARTITIONS_REWOUND: {
        // It was said before we registered, and moved what was rewound: if there is more, the next is told.
        const isOld = registering === null && beatAt < registeredAt
        if (isOld && code === KafkaError.PARTITIONS_REWOUND) {
          return this.change({ ...good, nextBeatAt: this.now })
        }
        // Until it has registered it would be told the same again.
        this.change({ ...good, nextBeatAt: this.now + heartbeatIntervalMs })
        this.halt(body)
        if (code !== KafkaError.PARTITIONS_REWOUND) this.change({ mustRegister: true })
        else if (this.member.halted.size === 0) this.change({ mustRegister: true })
        return
      }
      case KafkaError.ILLEGAL_GENERATION:
        // An answer was lost, or is on its way.
        return this.change({ mustRegister: true, nextBeatAt: this.now + heartbeatIntervalMs })
      default:
        this.change({ nextBeatAt: this.now })
        this.refused(code, '')
    }
  }

  /**
   * The round began after the heartbeat before this one was sent. What is out is known to be there once a heartbeat
   * behind it is told nothing.
   */
  private waitedFor(code: number): void {
    const { config, registering, registeredAt, beatAt, roundBy, lastGoodAt } = this.member
    const isThere = registering === null || beatAt >= registeredAt
    if (code === KafkaError.NONE && isThere) this.change({ roundBy: never })
    if (code !== KafkaError.GROUP_CHANGED && code !== KafkaError.TOPICS_CHANGED) return
    const by = lastGoodAt + config.registerTimeoutMs
    this.change({ roundBy: Math.min(roundBy, by) })
  }

  private halt({ rewound }: ResponseOf<typeof ControllerHeartbeat>): void {
    const { owned, recalled, halted, stopping } = this.member
    const leases: Lease[] = []
    for (const { topicId: topic, partitions } of rewound) {
      for (const partition of partitions) {
        const key = leaseKey({ topic, partition })
        const lease = owned.get(key)
        if (lease !== undefined && !recalled.has(key) && !halted.has(key)) leases.push(lease)
      }
    }
    if (leases.length === 0) return
    const more = leasesOf(leases)
    this.change({
      halted: new Map([...halted, ...more]),
      stopping: new Map([...stopping, ...more])
    })
    this.actions.push({ do: 'halt', leases })
  }

  // What goes wrong

  private refused(code: number, message: string): void {
    switch (code) {
      case KafkaError.NOT_COORDINATOR:
      case KafkaError.COORDINATOR_NOT_AVAILABLE:
        this.actions.push({ do: 'findCoordinator' })
        return this.failed()
      case KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
      case KafkaError.REQUEST_TIMED_OUT:
      case KafkaError.NETWORK_EXCEPTION:
      case KafkaError.THROTTLING_QUOTA_EXCEEDED:
      case KafkaError.UNKNOWN_SERVER_ERROR:
      case KafkaError.KAFKA_STORAGE_ERROR:
        return this.failed()
      case KafkaError.UNKNOWN_MEMBER_ID:
      case KafkaError.ILLEGAL_GENERATION:
        return this.rejoin('the controller no longer knows this member')
      default:
        this.loseAll('the group refused this member')
        this.change({ ...nothingOwned, phase: 'failed', mustRegister: false })
        this.actions.push({ do: 'fail', code, message })
    }
  }

  private unanswered(kind: LedRequestKind): void {
    if (kind === 'register') {
      this.change({ registering: null })
      if (this.isIn()) this.change({ mustRegister: true })
    }
    if (kind === 'heartbeat') this.change({ beatOut: false, nextBeatAt: this.now })
    if (kind === 'leave') this.change({ leaveOut: false })
    this.actions.push({ do: 'findCoordinator' })
    this.failed()
  }

  private unable({ error }: Extract<LedEvent, { on: 'unable' }>, leaving: boolean): void {
    this.loseAll(error.message)
    this.actions.push(leaving ? { do: 'left' } : { do: 'fail', code: 0, message: '', error })
    this.change({ ...nothingOwned, mustRegister: false, phase: leaving ? 'left' : 'failed' })
  }

  private isIn(): boolean {
    return this.member.phase === 'member' || this.member.phase === 'joining'
  }

  private rejoin(why: string): void {
    const { config, phase, memberId } = this.member
    this.loseAll(why)
    // A static member says who it was: if another has its place by now, it is told so, instead of taking it back.
    const keepsId = config.instanceId !== null && phase === 'member'
    this.join(keepsId ? memberId : '')
    if (phase === 'joining') this.failed()
    this.actions.push({ do: 'rejoin', why })
  }

  private join(memberId = ''): void {
    this.change({
      ...nothingOwned,
      phase: 'joining',
      memberId,
      failures: 0,
      mustRegister: true
    })
  }

  private lose(leases: Leases, why: string): void {
    this.fact({ is: 'gone', leases })
    this.actions.push({ do: 'lose', leases: [...leases.values()], why })
  }

  private loseAll(why: string): void {
    if (this.member.owned.size > 0) this.lose(this.member.owned, why)
  }

  private failed(): void {
    this.fact({ is: 'failed', at: this.now })
  }

  private overdue(): void {
    if (!this.isIn()) return
    this.loseAll('a handler took longer than maxProcessingMs')
    this.change({ ...nothingOwned, phase: 'overdue', mustRegister: false, failures: 0 })
  }

  private close(): void {
    const { phase, memberId, config } = this.member
    if (phase === 'left' || phase === 'leaving') return
    // A static member's partitions wait for it; one that was never answered is forgotten with its connection.
    const stays = memberId === '' || config.instanceId !== null || phase === 'failed'
    this.change({ ...nothingOwned, mustRegister: false, failures: 0, retryAt: -Infinity })
    this.change({ phase: stays ? 'left' : 'leaving', owned: noLeases })
    if (stays) this.actions.push({ do: 'left' })
  }

  private leaveAnswered(code: number): void {
    this.change({ leaveOut: false })
    const { phase } = this.member
    if (code === KafkaError.NOT_COORDINATOR || code === KafkaError.COORDINATOR_NOT_AVAILABLE) {
      this.actions.push({ do: 'findCoordinator' })
      return this.failed()
    }
    if (code === KafkaError.COORDINATOR_LOAD_IN_PROGRESS) return this.failed()
    if (phase === 'overdue') return this.change({ memberId: '' })
    if (phase !== 'leaving') return
    this.change({ phase: 'left' })
    this.actions.push({ do: 'left' })
  }

  // Sending

  private sendWhatIsDue(): void {
    const { phase, retryAt, memberId } = this.member
    if (retryAt > this.now) return
    if (phase === 'overdue' || phase === 'leaving') {
      if (memberId !== '' && !this.member.leaveOut) this.sendLeave()
      return
    }
    if (this.isIn() && this.mayRegister()) this.sendRegistration()
    if (this.beatDue() <= this.now) this.sendHeartbeat()
  }

  /** What is being stopped would be kept: its registration waits for that. */
  private mayRegister(): boolean {
    const { mustRegister, registering, stopping } = this.member
    return mustRegister && registering === null && stopping.size === 0
  }

  private beatDue(): number {
    const { phase, beatOut, nextBeatAt } = this.member
    return phase === 'member' && !beatOut ? nextBeatAt : never
  }

  private sendRegistration(): void {
    const { owned, halted, heartbeatIntervalMs } = this.member
    const kept = without(owned, halted)
    this.request(registration(this.member, kept))
    this.change({
      registering: kept,
      registeredAt: this.now,
      outlived: false,
      mustRegister: false,
      nextBeatAt: this.now + heartbeatIntervalMs
    })
  }

  private sendHeartbeat(): void {
    this.request(heartbeat(this.member))
    this.change({ beatOut: true, beatAt: this.now, nextBeatAt: never })
  }

  private sendLeave(): void {
    this.request(leave(this.member))
    this.change({ leaveOut: true })
  }

  private request(request: LedRequest): void {
    this.actions.push({ do: 'request', request })
  }

  private wakeAt(): number {
    const { phase, retryAt, memberId, leaveOut } = this.member
    const leaving = (phase === 'overdue' || phase === 'leaving') && memberId !== '' && !leaveOut
    const due = leaving || (this.isIn() && this.mayRegister()) ? this.now : this.beatDue()
    return due === never ? never : Math.max(due, retryAt)
  }

  private change(to: Partial<LedMember>): void {
    this.fact({ is: 'changed', to })
  }

  private fact(fact: LedFact): void {
    this.facts.push(fact)
    this.member = applyLed(this.member, fact)
  }
}

function* ledLeases(body: ResponseOf<typeof RegisterConsumer>): Generator<LedLease> {
  const asked = new Map(body.rewinds.map(rewind => [rewind.rewindId, rewind]))
  for (const { topicId, topic: name, partitions } of body.partitions) {
    for (const { partition, offset, rewindId: id, until, resume } of partitions) {
      const news = asked.get(id)
      const rewind = news === undefined ? null : { id, by: news.by, reason: news.reason }
      const replayed = until >= 0 && resume < 0
      const window = until < 0 || replayed ? null : { until, resume }
      yield { topic: topicId, name, partition, offset, lastRewindId: id, rewind, window, replayed }
    }
  }
}
