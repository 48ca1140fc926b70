/** Late commits: what a member sent on a connection that it has closed since, told by the newest that it committed on. */
import type { Of } from '../history/events.ts'

export class LateCommits {
  readonly #newest = new Map<string, number>()

  /** To be asked once of each commit, in order. */
  isLate({ member, group, connection }: Of<'commit.applied'>): boolean {
    const key = `${member} ${group}`
    const newest = Math.max(this.#newest.get(key) ?? 0, connection)
    this.#newest.set(key, newest)
    return connection < newest
  }
}
