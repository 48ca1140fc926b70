/**
 * What one consumer gets of one partition: the visible records, each once, in order, from where it started until it is
 * told to go elsewhere (L6, W2); only while the partition is its own (G2); what is marked as handled was delivered.
 *
 * That nothing was left out is known once the log is: offsets passed over are remembered, and a record that turns out
 * to be there was skipped.
 */
import {
  type Checker,
  type Happened,
  type Of,
  type RewindId,
  type Tp,
  Violation
} from '../history/events.ts'
import { type Gap, Gaps } from './gaps.ts'

interface Stream {
  /** The offset delivered last; -1: none since the stream began. */
  last: number
  /** Where a rewind or seek led, until the first record from there came. */
  target: number | undefined
  because: string
  /** The rewind of the last record. */
  rewindId: RewindId | undefined
  /** The rewind that `onRewind` was last called for, and the one that a seek left meanwhile. */
  announced: RewindId | undefined
  readonly left: RewindId | undefined
  /** When a seek led here; -1: none did. */
  readonly sought: number
  /** A seek has left the replay that its records are of. */
  readonly free: boolean
}

type Window = NonNullable<Of<'ledger'>['window']> & { readonly since: number }

interface Member {
  readonly group: string
  readonly owned: Map<Tp, Stream>
  readonly committedOnly: boolean
}

export class OrderChecker implements Checker {
  readonly #members = new Map<string, Member>()
  readonly #gaps = new Gaps()
  /** Of bounded replays, by group, partition and rewind, and since when each is known. */
  readonly #windows = new Map<string, Window>()

  on(event: Happened): void {
    switch (event.k) {
      case 'join':
        this.#members.set(event.member, {
          group: event.group,
          owned: new Map(),
          committedOnly: event.committedOnly
        })
        return
      case 'assigned':
        for (const tp of event.tps) this.#begin(event.member, tp, undefined, 'assigned')
        return
      case 'revoked':
      case 'lost':
        for (const tp of event.tps) this.#members.get(event.member)?.owned.delete(tp)
        return
      case 'left':
        this.#members.delete(event.member)
        return
      case 'announced':
        for (const tp of event.tps) {
          const stream = this.#members.get(event.member)?.owned.get(tp)
          if (stream !== undefined) stream.announced = event.id
        }
        return
      case 'applied':
        return this.#moved(event, event.tp, event.to, `the rewind ${event.id}`)
      case 'seek':
        return this.#moved(event, event.tp, event.to, 'a seek')
      case 'again':
        return this.#moved(event, event.tp, event.to, 'a redelivery')
      case 'moved':
        return this.#moved(event, event.tp, event.to, 'the cut log')
      case 'deliver':
        return this.#deliver(event)
      case 'ledger':
        const key = `${event.group} ${event.tp} ${event.id}`
        // The log was cut above it: nothing of it is left.
        if (event.window === undefined) this.#windows.delete(key)
        else {
          const since = this.#windows.get(key)?.since ?? event.i
          this.#windows.set(key, { ...event.window, since })
        }
        return
      case 'cut':
        return this.#gaps.cut(event.tp, event.start)
      case 'final':
        return this.#missed(event.tp, this.#gaps.see(event.tp, event.offset))
      default:
    }
  }

  #begin(name: string, tp: Tp, target: number | undefined, because: string): void {
    this.#members.get(name)?.owned.set(tp, {
      last: -1,
      target,
      because,
      rewindId: undefined,
      announced: undefined,
      left: undefined,
      sought: -1,
      free: false
    })
  }

  #moved(
    event: Of<'applied' | 'seek' | 'moved' | 'again'>,
    tp: Tp,
    to: number,
    because: string
  ): void {
    const stream = this.#members.get(event.member)?.owned.get(tp)
    if (stream === undefined) return
    const { announced } = stream
    if (event.k === 'applied' && (stream.left === event.id || this.#mayBeLeft(event, stream))) {
      // A seek came while the rewind waited for its handlers: it is where that ends, and its window is left.
      this.#members.get(event.member)?.owned.set(tp, { ...stream, rewindId: event.id })
      return
    }
    // Whoever seeks leaves a replay, and nothing is said of the rest of its window.
    const sought = event.k === 'seek' ? undefined : stream.rewindId
    const rewindId = event.k === 'applied' ? event.id : sought
    // A log that is cut above it moves it on, out of no window and into none.
    const goesOn = event.k === 'moved' || event.k === 'again'
    const left = event.k === 'seek' ? announced : goesOn ? stream.left : undefined
    const free = event.k === 'seek' || (goesOn && stream.free)
    const owned = this.#members.get(event.member)?.owned
    const at = event.k === 'seek' ? event.i : -1
    owned?.set(tp, { last: -1, target: to, because, rewindId, announced, left, sought: at, free })
  }

  /** Nothing came since a seek, which came once the replay was known, and led where it is applied. */
  #mayBeLeft({ member, tp, id, to }: Of<'applied'>, { last, target, sought }: Stream): boolean {
    const group = this.#members.get(member)?.group
    const window = this.#windows.get(`${group} ${tp} ${id}`)
    return window !== undefined && last < 0 && target === to && sought > window.since
  }

  #deliver(event: Of<'deliver'>): void {
    const { tp, offset } = event
    const member = this.#members.get(event.member)
    if (member === undefined) throw new Violation('G2', `${event.member} is no member`, event)
    const stream = member.owned.get(tp)
    if (stream === undefined) {
      throw new Violation('G2', `${event.member} got ${tp}@${offset}, which it does not own`, event)
    }
    const window = this.#windows.get(`${member.group} ${tp} ${event.rewindId}`)
    // Who seeks leaves the replay.
    if (window !== undefined && offset >= window.until && !stream.free) {
      const what = `${event.member} got ${tp}@${offset} in a replay that ends at ${window.until}`
      throw new Violation('W15', what, event)
    }
    const ends = event.rewindId === `${stream.rewindId}.`
    if (ends || this.#cutBehindWindow(event, member, stream)) {
      this.#windowEnds(event, member, stream)
    }
    const { last, target, because } = stream
    if (target !== undefined) {
      if (offset < target) {
        throw new Violation(
          'W1',
          `${tp}@${offset} is before ${target}, where ${because} led`,
          event
        )
      }
      this.#missed(tp, this.#gaps.pass(tp, target, offset, event))
    } else if (last >= 0) {
      if (offset <= last) {
        throw new Violation('L6', `${tp}@${offset} comes after ${last} (since ${because})`, event)
      }
      this.#missed(tp, this.#gaps.pass(tp, last + 1, offset, event))
    }
    stream.last = offset
    stream.target = undefined
    stream.rewindId = event.rewindId
    // To a reader of uncommitted records more is visible than to the others.
    if (member.committedOnly) this.#missed(tp, this.#gaps.see(tp, offset))
  }

  /** A new owner in the middle of a replay, of which nothing came: the log was cut. It goes on where the group was. */
  #cutBehindWindow({ tp, offset, rewindId }: Of<'deliver'>, { group }: Member, stream: Stream) {
    const { target, free } = stream
    if (stream.rewindId !== undefined || target === undefined || free) return false
    if (!rewindId.endsWith('.')) return false
    const id = rewindId.slice(0, -1)
    const window = this.#windows.get(`${group} ${tp} ${id}`)
    if (window === undefined || target < window.until || offset < window.resume) return false
    stream.rewindId = id
    return true
  }

  /** W15: of a bounded replay all of its window came, and then it goes on where the group was. */
  #windowEnds(event: Of<'deliver'>, { group }: Member, stream: Stream): void {
    const { tp, offset } = event
    const window = this.#windows.get(`${group} ${tp} ${stream.rewindId}`)
    if (window === undefined) return
    const { until, resume } = window
    const from = stream.target ?? stream.last + 1
    this.#missed(tp, this.#gaps.pass(tp, from, until, event))
    if (offset < resume) {
      throw new Violation(
        'W15',
        `${tp}@${offset} after a replay up to ${until}: ${resume} was due`,
        event
      )
    }
    stream.last = -1
    stream.target = undefined
    stream.because = 'the end of a replay'
  }

  #missed(tp: Tp, gap: Gap | undefined): void {
    if (gap === undefined) return
    throw new Violation('L6', `${tp}@${gap.offset} was skipped by this delivery`, gap.event)
  }
}
