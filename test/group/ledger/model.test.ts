/**
 * One partition of a group, its two slots, owners that come and go, commits that arrive as late as they like
 * and in any order, and two callers with clocks of their own, either of which may die between any two steps.
 *
 * One thing is left out, as Kafka's commits without compare-and-set leave no cure: between a caller's read and
 * its write (milliseconds), another caller's rewind is applied, a late commit covers that, and its owner dies
 * before its next check. Then the write covers the last trace of the other's rewind.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  beforeOf,
  cancelled,
  done,
  judge,
  over,
  repaired,
  type Standing
} from '../../../src/group/ledger/caller.ts'
import { type Commit, effective, isNews, windowOf } from '../../../src/group/ledger/position.ts'
import {
  endOf,
  nextSequence,
  noSequence,
  type ReplayWindow,
  type RewindEntry,
  type Sequence
} from '../../../src/protocol/embedded/rewind-envelope.ts'

const logEnd = 100
const day = 86_400_000
type Mode = 'answered' | 'late'

interface OwnerState {
  sequence: Sequence
  position: number
  from: number | null
  window: ReplayWindow | null
  acknowledged: Commit | null
}

class Partition {
  group: Commit | null = null
  ledger: RewindEntry | null = null
  readonly late: Commit[] = []
  owner: OwnerState | null = null
  readonly callers: (CallerState | null)[] = [null, null]
  /** The latest rewind that a caller was told is applied. */
  resolved: RewindEntry | null = null
  now = 1000
  readonly story: string[] = []

  check(): void {
    if (!this.resolved) return
    const at = effective(this.group, this.ledger, this.now)
    const why = () => `${JSON.stringify({ at, resolved: this.resolved })}\n${this.story.join('\n')}`
    assert.ok(at.sequence >= this.resolved.sequence, why())
    if (at.sequence === this.resolved.sequence) {
      assert.ok(at.offset !== null && at.offset >= this.resolved.target, why())
    }
  }

  startOwner(mode: Mode): void {
    if (this.owner) return
    const at = effective(this.group, this.ledger, this.now)
    const { sequence, from, window } = at
    this.owner = { sequence, position: at.offset ?? 0, from, window, acknowledged: null }
    if (at.because === 'rewind' || at.because === 'external') this.commit(mode)
  }

  consume(count: number): void {
    const { owner } = this
    if (!owner) return
    owner.position = Math.min(logEnd, owner.position + count)
    if (owner.window && owner.position >= owner.window.until) {
      owner.position = Math.max(owner.position, owner.window.resume)
      owner.sequence = endOf(owner.sequence)
      owner.window = null
    }
  }

  commit(mode: Mode): void {
    const { owner } = this
    if (!owner) return
    const { position: offset, sequence, from, window } = owner
    const commit = { offset, sequence, from, window, application: '' }
    if (mode === 'late') this.late.push(commit)
    else this.group = owner.acknowledged = commit
  }

  poll(mode: Mode): void {
    const { owner, ledger } = this
    if (!owner) return
    if (ledger && isNews(ledger, owner.sequence, this.now)) {
      owner.from = owner.position
      owner.position = ledger.target
      owner.sequence = ledger.sequence
      owner.window = windowOf(ledger, owner.from)
      this.commit(mode)
    } else if (JSON.stringify(this.group) !== JSON.stringify(owner.acknowledged)) this.commit(mode)
  }

  /** Between some caller's read and its write. */
  get inBetween(): boolean {
    return this.callers.some(caller => caller?.written === false)
  }

  arrive(which: number): void {
    if (this.inBetween) return
    const [commit] = this.late.splice(which % Math.max(1, this.late.length), 1)
    if (commit) this.group = commit
  }
}

interface CallerState {
  readonly entry: RewindEntry
  written: boolean
}

const callerSteps = {
  read(p: Partition, who: number, skew: number, target: number, until: number | null): void {
    if (p.callers[who]) return
    const seen = [p.group?.sequence ?? noSequence, p.ledger?.sequence ?? noSequence]
    const now = p.now + skew
    const before = beforeOf(p.group, p.ledger, p.now)
    const resume = effective(p.group, p.ledger, p.now).offset ?? logEnd
    const window = until !== null && target < until && until <= resume
    p.callers[who] = {
      written: false,
      entry: {
        sequence: nextSequence(now, seen, `aaa${who}`),
        state: 'pending',
        topicId: 'A'.repeat(22),
        created: now,
        expires: p.now + day,
        target,
        before,
        until: window ? until : null,
        resume: window ? resume : null,
        who: '',
        reason: ''
      }
    }
  },
  /** Write, read back, and repair what was covered: in one go. */
  write(p: Partition, entry: RewindEntry): void {
    p.ledger = over(entry, p.group, p.ledger, p.now)
    p.ledger = repaired(p.ledger, p.group) ?? p.ledger
  },
  look(p: Partition, who: number): Standing | null {
    const caller = p.callers[who]
    if (!caller) return null
    if (!caller.written) {
      callerSteps.write(p, caller.entry)
      caller.written = true
      return null
    }
    const standing = judge(caller.entry, p.group, p.ledger, p.now)
    if (standing.state === 'pending') return null
    if (standing.state === 'overwritten') {
      callerSteps.write(p, caller.entry)
      return null
    }
    p.callers[who] = null
    if (standing.state === 'applied') {
      if (p.ledger?.sequence === caller.entry.sequence) {
        callerSteps.write(p, done(caller.entry, p.group))
      } else if (p.ledger) p.ledger = repaired(p.ledger, p.group) ?? p.ledger
      if (!p.resolved || p.resolved.sequence < caller.entry.sequence) p.resolved = caller.entry
    }
    return standing
  },
  cancel(p: Partition, who: number): void {
    const entry = p.callers[who]?.entry
    if (!entry || p.ledger?.sequence !== entry.sequence) return
    if (judge(entry, p.group, p.ledger, p.now).state !== 'pending') return
    callerSteps.write(p, cancelled(entry, p.group, p.now))
  }
}

const mode = fc.constantFrom<Mode>('answered', 'answered', 'late')
const who = fc.integer({ min: 0, max: 1 })
const small = fc.integer({ min: 0, max: logEnd })
type Step = readonly [string, (p: Partition) => void]
const step = (name: string, run: (p: Partition) => void): Step => [name, run]
const steps: fc.Arbitrary<Step> = fc.oneof(
  mode.map(m => step(`owner starts, ${m}`, p => p.startOwner(m))),
  small.map(n => step(`consume ${n}`, p => p.consume(n))),
  mode.map(m => step(`commit ${m}`, p => p.commit(m))),
  small.map(n =>
    step(`consume ${n}, commit late`, p => {
      p.consume(n)
      p.commit('late')
    })
  ),
  mode.map(m => step(`poll ${m}`, p => p.poll(m))),
  fc.constant(step('owner crashes', p => void (p.inBetween || (p.owner = null)))),
  fc.nat(5).map(n => step(`late commit ${n} arrives`, p => p.arrive(n))),
  fc
    .tuple(who, fc.integer({ min: -500, max: 500 }), small, fc.option(small))
    .map(([w, skew, to, until]) =>
      step(`caller ${w} reads (${skew} ms off) to rewind to ${to} until ${until}`, p =>
        callerSteps.read(p, w, skew, to, until)
      )
    ),
  who.map(w => step(`caller ${w} goes on`, p => void callerSteps.look(p, w))),
  who.map(w => step(`caller ${w} cancels`, p => callerSteps.cancel(p, w))),
  who.map(w => step(`caller ${w} dies`, p => void (p.callers[w] = null))),
  fc.constant(step('a millisecond passes', p => void p.now++)),
  fc.constant(step('a day passes', p => void (p.inBetween || (p.now += day)))),
  // Chance alone seldom gets so far: a whole rewind, and what threatens it.
  fc.tuple(who, small).map(([w, to]) =>
    step(`caller ${w} rewinds to ${to} while others wait`, p => {
      callerSteps.read(p, w, 0, to, null)
      for (let i = 0; i < 3; i++) {
        callerSteps.look(p, w)
        p.poll('answered')
      }
    })
  ),
  fc.tuple(who, small).map(([w, to]) =>
    step(`caller ${w} writes a rewind to ${to} that nobody takes up`, p => {
      callerSteps.read(p, w, 0, to, null)
      callerSteps.look(p, w)
    })
  )
)

test('once a caller was told "applied", no start derives from before its rewind, however late commits come', () => {
  fc.assert(
    fc.property(fc.array(steps, { minLength: 10, maxLength: 60 }), story => {
      const p = new Partition()
      for (const [name, run] of story) {
        run(p)
        p.story.push(`${name}: group ${JSON.stringify(p.group)} ledger ${JSON.stringify(p.ledger)}`)
        p.check()
      }
    }),
    { numRuns: 6000 }
  )
})

test('left alone with a live owner, every call comes to an end and the slots agree with the owner', () => {
  fc.assert(
    fc.property(fc.array(steps, { maxLength: 80 }), story => {
      const p = new Partition()
      for (const [, run] of story) run(p)
      for (const caller of [0, 1]) if (p.inBetween) callerSteps.look(p, caller)
      while (p.late.length > 0) p.arrive(0)
      p.startOwner('answered')
      for (let round = 0; round < 4; round++) {
        p.poll('answered')
        for (const caller of [0, 1]) callerSteps.look(p, caller)
      }
      assert.deepEqual(p.callers, [null, null])
      p.poll('answered')
      p.commit('answered')
      const at = effective(p.group, p.ledger, p.now)
      assert.equal(at.offset, p.owner?.position)
    }),
    { numRuns: 2000 }
  )
})
