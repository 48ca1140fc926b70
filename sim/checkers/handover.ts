/**
 * From one owner of a partition to the next. Nothing is committed but what was handled (G4), by whom the coordinator
 * told last to own it (G3), and nothing from before a rewind that a controller has recorded (W17). Who gives a partition
 * up in order has handled what it got, and committed that (G2, G6). The next begins no lower than where the group
 * stands, whatever went wrong while it looked (G11), and behind a replay no lower than before it (W15). What a rewind
 * overtakes in a handler's hands is told by its signal (W14).
 */
import {
  type Checker,
  type Happened,
  type Of,
  type RewindId,
  topicOf,
  type Tp,
  Violation
} from '../history/events.ts'
import { type Gap, Gaps } from './gaps.ts'

/** A partition while a member has it. */
interface Stream {
  /** The rewind that it is at; undefined: nothing was delivered since it began. */
  id: RewindId | undefined
  /** The first and the last that were delivered since. */
  first: number
  /** Which event delivered the first. */
  since: number
  delivered: number
  handled: number
  /** Where a seek led, until something is delivered; -1: no seek. */
  sought: number
  /** Before the seek: what it may have committed up to, on its way since; -1: no seek. */
  left: number
  /** The first connection that brought a commit from behind the seek: on it none from before can follow. */
  freshOn: number
  /** Its consumer is being closed. */
  closed: boolean
  /** A rewind was applied while a record was in hand. */
  overtaken: boolean
  /** Until something is delivered: the commit that it must not begin below. */
  floor: { readonly id: RewindId; readonly offset: number } | undefined
}

interface Member {
  readonly group: string
  readonly node: string
  readonly streams: Map<Tp, Stream>
  /** The highest offset handled, per partition and rewind, whenever that was. */
  readonly handled: Map<string, number>
}

/** What a group has committed for a partition. */
interface Slot {
  id: RewindId
  offset: number
  /** What was stored last, which is lower after a seek or a late commit; undefined: a late commit of before the rewind. */
  lowest: number | undefined
  /** Where the group stood before the rewind `id`. */
  before: number
  /** A commit that nobody saw the end of may have changed it. */
  unsure: boolean
}

export class HandoverChecker implements Checker {
  readonly #members = new Map<string, Member>()
  readonly #slots = new Map<string, Slot>()
  readonly #owners = new Map<string, { readonly member: string; readonly since: number }>()
  /** By group and partition: where each rewind led. */
  readonly #targets = new Map<string, Map<RewindId, number>>()
  /** The latest rewind that was asked for, and the latest that a controller has recorded. */
  readonly #asked = new Map<string, RewindId>()
  readonly #recorded = new Map<string, { readonly id: RewindId; readonly since: number }>()
  /** Requests to commit that are being handled: when each began; -1: as no member. */
  readonly #trying = new Map<number, number>()
  /** Of the request whose end comes next. */
  #applied: Of<'commit.applied'>[] = []
  /** What a group commits within transactions too: when they take effect, and where that leaves it, is not seen here. */
  readonly #inTransactions = new Set<string>()
  /** Behind which replays somebody has gone on. */
  readonly #resumed = new Set<string>()
  readonly #deleted = new Set<string>()
  readonly #gaps = new Gaps()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          group: event.group,
          node: event.node,
          streams: new Map(),
          handled: new Map()
        })
        return
      case 'assigned':
        for (const tp of event.tps) this.#begins(event.member, tp)
        return
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.streams.delete(tp)
        return
      case 'revoked':
        return this.#revoked(event)
      case 'left':
        if (event.drained === true) {
          for (const tp of this.#members.get(event.member)?.streams.keys() ?? [])
            this.#drained(event, tp)
        }
        this.#members.delete(event.member)
        return
      case 'topic.deleted':
        this.#deleted.add(event.topic)
        return
      case 'applied':
        return this.#moved(event, event.id)
      case 'seek':
      case 'moved':
        return this.#moved(event, undefined)
      case 'announced':
        return this.#announced(event)
      case 'tx.offsets': {
        const group = this.#members.get(event.member)?.group
        for (const tp of Object.keys(event.at)) this.#inTransactions.add(`${group} ${tp}`)
        return
      }
      case 'deliver':
        return this.#deliver(event)
      case 'handled':
        return this.#handled(event)
      case 'final':
        return this.#missed(this.#gaps.see(event.tp, event.offset))
      case 'cut':
        return this.#gaps.cut(event.tp, event.start)
      default:
        this.#atCoordinator(event)
    }
  }

  #atCoordinator(event: Happened): void {
    switch (event.k) {
      case 'ledger': {
        const key = `${event.group} ${event.tp}`
        if (event.id > (this.#asked.get(key) ?? '')) this.#asked.set(key, event.id)
        const targets = this.#targets.get(key) ?? new Map<RewindId, number>()
        this.#targets.set(key, targets.set(event.id, event.target))
        if (event.led !== true || event.state !== 'done') return
        this.#recorded.set(key, { id: event.id, since: event.i })
        return this.#stands(key, event.id, event.target)
      }
      case 'group.gen':
        for (const [tp, member] of Object.entries(event.owners)) {
          const key = `${event.group} ${tp}`
          if (this.#owners.get(key)?.member !== member)
            this.#owners.set(key, { member, since: event.i })
        }
        return
      case 'commit.try':
        // Who commits as no member, for a group that is empty, is let in whoever was told to own what.
        this.#trying.set(event.commit, event.memberId === '' ? -1 : event.i)
        return
      case 'commit.applied':
        this.#applied.push(event)
        return this.#committed(event)
      case 'commit.end':
        for (const applied of this.#applied)
          this.#allowed(applied, this.#trying.get(event.commit) ?? -1)
        this.#applied = []
        this.#trying.delete(event.commit)
        return
      case 'reset':
        this.#slots.delete(`${event.group} ${event.tp}`)
        return
      case 'crash':
      case 'power.loss':
        return this.#ended(event.node)
      default:
    }
  }

  #revoked(event: Of<'revoked'>): void {
    for (const tp of event.tps) {
      if (event.drained === true) this.#drained(event, tp)
      const streams = this.#members.get(event.member)?.streams
      const stream = streams?.get(tp)
      if (event.drained === true) streams?.delete(tp)
      // It closes, and what is in hand meanwhile is not waited for in every way of reading.
      else if (stream !== undefined) stream.closed = true
    }
  }

  #stream(member: string, tp: Tp): Stream | undefined {
    return this.#members.get(member)?.streams.get(tp)
  }

  #begins(name: string, tp: Tp): void {
    const member = this.#members.get(name)
    const key = `${member?.group} ${tp}`
    const slot = this.#inTransactions.has(key) ? undefined : this.#slots.get(key)
    const known = slot !== undefined && !slot.unsure && slot.lowest !== undefined
    const floor = known ? { id: slot.id, offset: slot.lowest ?? 0 } : undefined
    member?.streams.set(tp, { ...nothing, floor })
  }

  #moved(event: Of<'applied' | 'seek' | 'moved'>, id: RewindId | undefined): void {
    const member = this.#members.get(event.member)
    const stream = member?.streams.get(event.tp)
    if (stream === undefined) return
    const overtaken =
      stream.overtaken || (event.k === 'applied' && stream.delivered > stream.handled)
    // A log that is cut above where a seek led moves it on.
    const sought = event.k === 'seek' ? event.to : event.k === 'moved' ? stream.sought : -1
    const left = event.k === 'seek' ? Math.max(stream.left, event.from ?? -1) : -1
    member?.streams.set(event.tp, { ...nothing, id, sought, overtaken, left })
  }

  #announced(event: Of<'announced'>): void {
    for (const tp of event.tps) {
      const stream = this.#stream(event.member, tp)
      if (stream?.id !== event.id || stream.first < 0) continue
      const what = `${event.member} was told of ${event.id} once ${tp}@${stream.first} had come from it`
      throw new Violation('W14', what, event)
    }
  }

  #deliver(event: Of<'deliver'>): void {
    const { tp, offset, rewindId } = event
    this.#missed(this.#gaps.see(tp, offset))
    const member = this.#members.get(event.member)
    const stream = member?.streams.get(tp)
    if (member === undefined || stream === undefined) return
    const { floor } = stream
    stream.floor = undefined
    if (floor?.id === rewindId && offset < floor.offset) {
      const what = `${event.member} began ${tp} at ${offset}: ${floor.offset} was committed`
      throw new Violation('G11', what, event)
    }
    if (stream.id !== rewindId || stream.first < 0) {
      if (rewindId.endsWith('.')) this.#resumes(event, member, stream)
      stream.id = rewindId
      stream.first = offset
      stream.since = event.i
      stream.handled = offset - 1
    }
    stream.delivered = offset
    stream.overtaken = false
  }

  #resumes(event: Of<'deliver'>, { group }: Member, { sought }: Stream): void {
    const { tp, offset, rewindId } = event
    const slot = this.#slots.get(`${group} ${tp}`)
    const place = `${group} ${tp} ${rewindId}`
    const known = slot !== undefined && !slot.unsure && !this.#inTransactions.has(`${group} ${tp}`)
    // Once: later on a seek may lead anywhere, and whoever takes over goes on from there.
    if (this.#resumed.has(place)) return
    this.#resumed.add(place)
    if (!known || sought >= 0) return
    const same = slot.id === rewindId || `${slot.id}.` === rewindId
    if (!same || offset >= slot.before) return
    const what = `${event.member} got ${tp}@${offset} behind a replay: before it ${slot.before} was committed`
    throw new Violation('W15', what, event)
  }

  #handled(event: Of<'handled'>): void {
    const { tp, offset } = event
    const member = this.#members.get(event.member)
    const stream = member?.streams.get(tp)
    if (member === undefined || stream === undefined) return
    if (stream.overtaken) {
      stream.overtaken = false
      if (event.signalled === false) {
        const what = `${event.member} handled ${tp}@${offset}, a rewind overtook it, and its signal is silent`
        throw new Violation('W14', what, event)
      }
      return
    }
    if (!stream.closed) stream.handled = Math.max(stream.handled, offset)
    const key = `${tp} ${stream.id}`
    member.handled.set(key, Math.max(offset, member.handled.get(key) ?? -1))
  }

  #committed(event: Of<'commit.applied'>): void {
    const { group, tp, offset } = event
    const rewindId = event.rewindId ?? ''
    this.#isHandled(event)
    const key = `${group} ${tp}`
    for (const { streams } of this.#members.values()) {
      const stream = streams.get(tp)
      if (stream?.floor === undefined) continue
      if (rewindId < stream.floor.id) stream.floor = undefined
      else if (rewindId === stream.floor.id && offset < stream.floor.offset)
        stream.floor = { id: rewindId, offset }
    }
    this.#stands(key, rewindId, offset)
  }

  /** By a commit, or as a controller has recorded. */
  #stands(key: string, id: RewindId, offset: number): void {
    const slot = this.#slots.get(key)
    if (slot === undefined || slot.unsure) {
      this.#slots.set(key, { id, offset, lowest: offset, before: -1, unsure: false })
    } else if (id > slot.id) {
      // A seek back lowers what is committed, and so does a late commit.
      if (id !== `${slot.id}.`) slot.before = this.#before(key, id, slot)
      slot.id = id
      slot.offset = slot.lowest = offset
    } else if (id < slot.id) slot.lowest = undefined
    else {
      slot.offset = Math.max(slot.offset, offset)
      slot.lowest = offset
    }
  }

  /** Where the group stood before `id`: where a rewind leads that was still to be taken up, or at what was committed. */
  #before(key: string, id: RewindId, slot: Slot): number {
    let before = slot.lowest ?? slot.offset
    for (const [rewind, target] of this.#targets.get(key) ?? []) {
      if (rewind > slot.id && rewind < id) before = Math.min(before, target)
    }
    return before
  }

  /** G4: by a member that got something since the rewind which the commit carries, or that went elsewhere since. */
  #isHandled(event: Of<'commit.applied'>): void {
    const { tp, offset, rewindId } = event
    const member = this.#members.get(event.member)
    const stream = member?.streams.get(tp)
    // The acknowledgement of a rewind; whoever sought meanwhile got something from elsewhere before.
    if (this.#targets.get(`${event.group} ${tp}`)?.get(rewindId ?? '') === offset) return
    if (stream === undefined) return
    // It was at the coordinator already when its sender went elsewhere.
    if ((this.#trying.get(event.commit ?? -1) ?? Infinity) < stream.since) return
    const handled = member?.handled.get(`${tp} ${rewindId}`) ?? -1
    const sought = handled >= 0 && stream.first < 0 && stream.sought === offset
    if (!sought && (stream.id !== rewindId || stream.first < 0)) return
    const from = Math.max(stream.first, handled + 1)
    if (offset <= from) stream.freshOn = Math.min(stream.freshOn, event.connection)
    // Sent before it went elsewhere, to a broker that stood still.
    else if (offset <= stream.left && event.connection < stream.freshOn) return
    this.#missed(this.#gaps.pass(tp, from, offset, event))
  }

  #missed(gap: Gap | undefined): void {
    if (gap?.event.k !== 'commit.applied') return
    const { member, tp, offset } = gap.event
    const what = `${member} committed ${offset} of ${tp}, and had not handled ${gap.offset}`
    throw new Violation('G4', what, gap.event)
  }

  /** `event` was let in by the coordinator at `since`. */
  #allowed(event: Of<'commit.applied'>, since: number): void {
    const { group, tp, offset, member, rewindId } = event
    const key = `${group} ${tp}`
    const owner = this.#owners.get(key)
    if (this.#members.has(member) && owner && owner.member !== member && owner.since < since) {
      const what = `${member} committed ${offset} of ${tp}, which ${owner.member} was told to own`
      throw new Violation('G3', what, event)
    }
    const recorded = this.#recorded.get(key)
    if (recorded && (rewindId ?? '') < recorded.id && recorded.since < since) {
      const what = `a commit of ${tp} with rewind ${rewindId} was taken after ${recorded.id} was recorded`
      throw new Violation('W17', what, event)
    }
  }

  /** What a member gave up in order. */
  #drained(event: Of<'revoked' | 'left'>, tp: Tp): void {
    const { member: name } = event
    const group = this.#members.get(name)?.group
    const stream = this.#stream(name, tp)
    if (stream?.id === undefined || stream.first < 0) return
    if (this.#deleted.has(topicOf(tp))) return
    const key = `${group} ${tp}`
    // A rewind that it was in the middle of made void what it had.
    if ((this.#asked.get(key) ?? '') > stream.id) return
    const { handled, delivered, first } = stream
    if (event.k === 'revoked' && handled < delivered) {
      const what = `${name} gave up ${tp}, and ${delivered} was not handled yet`
      throw new Violation('G2', what, event)
    }
    const slot = this.#slots.get(key)
    if (slot?.unsure === true || handled < first || (slot?.id ?? '') > stream.id) return
    if (slot?.id === stream.id && slot.offset > handled) return
    const what = `${name} gave up ${tp} in order with ${handled} handled, and ${slot?.offset} is committed`
    throw new Violation('G6', what, event)
  }

  #ended(node: string): void {
    for (const [name, member] of this.#members) {
      if (member.node === node) this.#members.delete(name)
    }
    if (node !== 'b') return
    if (this.#trying.size > 0) for (const slot of this.#slots.values()) slot.unsure = true
    this.#trying.clear()
    this.#applied = []
  }
}

const nothing: Stream = {
  id: undefined,
  first: -1,
  since: -1,
  delivered: -1,
  handled: -1,
  sought: -1,
  left: -1,
  freshOn: Infinity,
  closed: false,
  overtaken: false,
  floor: undefined
}
