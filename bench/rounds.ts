/** Cases that take turns, so that a neighbour on the machine disturbs all alike. */

export interface Case {
  readonly name: string
  /** Does some of its work; returns (or resolves to) how many units that was. */
  run(): number | Promise<number>
}

/** Units a second of each case: the median of `rounds`, after two that warm up. A case runs for about `ms` in a round. */
export async function medians(
  cases: readonly Case[],
  rounds: number,
  ms: number
): Promise<Map<string, number>> {
  const results = new Map(cases.map(({ name }) => [name, [] as number[]]))
  for (let round = -2; round < rounds; round++) {
    for (const one of cases) {
      const rate = await rateOf(one, ms)
      if (round >= 0) results.get(one.name)?.push(rate)
    }
  }
  return new Map([...results].map(([name, list]) => [name, median(list)]))
}

async function rateOf(one: Case, ms: number): Promise<number> {
  const start = performance.now()
  let units = 0
  let took = 0
  while (took < ms) {
    const done = one.run()
    units += typeof done === 'number' ? done : await done
    took = performance.now() - start
  }
  return (units / took) * 1000
}

export function median(list: readonly number[]): number {
  const sorted = list.toSorted((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? 0
}
