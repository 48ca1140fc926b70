/** What topics there are, as far as the run can know: those of the plan, and what was created, grown and deleted since. */
import type { TopicPlan } from '../plan/plan.ts'

export class Topics {
  readonly #partitions = new Map<string, number>()
  /** Where members in mode 'transact' write to. */
  readonly results: string | undefined

  constructor(planned: readonly TopicPlan[]) {
    for (const { name, partitions } of planned) this.#partitions.set(name, partitions)
    this.results = planned.find(({ results }) => results)?.name
  }

  /** There surely are that many partitions now. */
  made(name: string, partitions: number): void {
    this.#partitions.set(name, Math.max(partitions, this.partitionsOf(name)))
  }

  /** From now on it may be gone. */
  deleted(name: string): void {
    this.#partitions.delete(name)
  }

  get names(): readonly string[] {
    return [...this.#partitions.keys()]
  }

  /** What producers send to. */
  get sources(): readonly string[] {
    return this.names.filter(name => name !== this.results)
  }

  /** 0: there is no such topic. */
  partitionsOf(name: string): number {
    return this.#partitions.get(name) ?? 0
  }
}
