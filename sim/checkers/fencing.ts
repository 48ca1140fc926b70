/**
 * What the coordinator takes: a member's generation or epoch never falls while it is one (G3), and a commit counts only
 * by who had the partition when it came, in an epoch that it had been told by then (G3). So a zombie's never does.
 */
import { type Checker, type Happened, type Of, type Tp, Violation } from '../history/events.ts'

/** A commit on its way, and what was known when it came. */
interface Try {
  readonly memberId: string
  readonly epoch: number
  /** In which epoch each partition was told to this member. */
  readonly since: ReadonlyMap<Tp, number>
  readonly owners: Readonly<Record<Tp, string>>
}

interface Known {
  epoch: number
  /** By the name of the membership. */
  readonly member: string
  /** In which epoch it was first told each partition that it has. */
  since: ReadonlyMap<Tp, number>
}

const none: ReadonlyMap<Tp, number> = new Map()

export class FencingChecker implements Checker {
  /** By group and the coordinator's member id. */
  readonly #members = new Map<string, Known>()
  readonly #owners = new Map<string, Readonly<Record<Tp, string>>>()
  readonly #tries = new Map<number, Try>()

  on(event: Happened): void {
    switch (event.k) {
      case 'heartbeat':
        return this.#told(event)
      case 'group.gen':
        return this.#assigned(event)
      case 'commit.try':
        return this.#trying(event)
      case 'commit.applied':
        return this.#applied(event)
      case 'commit.end':
        this.#tries.delete(event.commit)
        return
      default:
    }
  }

  #told(event: Of<'heartbeat'>): void {
    const { group, memberId, epoch, member, joins } = event
    if (group === undefined || memberId === undefined || epoch === undefined) return
    const key = `${group} ${memberId}`
    const known = this.#members.get(key)
    if (known === undefined || joins) {
      // A join that comes twice, or late, takes nothing from a member that is there.
      this.#members.set(key, { epoch, member, since: known?.since ?? none })
      return
    }
    if (epoch < known.epoch) {
      throw new Violation('G3', `${member} was in ${known.epoch}, and is told ${epoch}`, event)
    }
    known.epoch = epoch
  }

  #assigned({ group, owners }: Of<'group.gen'>): void {
    this.#owners.set(group, owners)
    for (const [key, known] of this.#members) {
      if (!key.startsWith(`${group} `)) continue
      const since = new Map<Tp, number>()
      for (const [tp, owner] of Object.entries(owners)) {
        if (owner === known.member) since.set(tp, known.since.get(tp) ?? known.epoch)
      }
      known.since = since
    }
  }

  #trying({ commit, group = '', memberId = '', epoch = -1 }: Of<'commit.try'>): void {
    const known = this.#members.get(`${group} ${memberId}`)
    const owners = this.#owners.get(group) ?? {}
    this.#tries.set(commit, { memberId, epoch, since: known?.since ?? none, owners })
  }

  #applied(event: Of<'commit.applied'>): void {
    const { commit = -1, tp, member, group } = event
    const asked = this.#tries.get(commit)
    if (asked === undefined || asked.epoch < 0) return
    const since = asked.since.get(tp)
    if (since !== undefined && asked.epoch < since) {
      const what = `a commit of epoch ${asked.epoch} of ${tp}, which it has since ${since}`
      throw new Violation('G3', `${member} of ${group}: ${what}`, event)
    }
    const owner = asked.owners[tp]
    if (owner === undefined || owner === member) return
    throw new Violation('G3', `${member} of ${group} commits ${tp}, which ${owner} has`, event)
  }
}
