/** What a run came to, for a person. */
import { execFileSync } from 'node:child_process'
import type { Happened } from './history/events.ts'
import type { Outcome } from './run.ts'

/** One event, on a line. */
export function told(event: Happened): string {
  const { i, t, node, inc, k, ...rest } = event
  const fields = Object.entries(rest).map(([name, value]) => {
    return `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`
  })
  return `${String(i).padStart(6)} ${t.toFixed(3).padStart(11)} ${`${node}.${inc}`.padEnd(6)} ${k} ${fields.join(' ')}`
}

export function report(outcome: Outcome): string {
  const { plan, violation, hash, events, virtualMs, tail } = outcome
  const run = `${plan.seed} ${plan.world} ${hash} ${events} events, ${(virtualMs / 1000).toFixed(0)} virtual s`
  if (violation === undefined) return `${run}: every rule holds`
  const lines = [...tail.map(told), '', `VIOLATION ${violation.message}`, run, `commit ${commit()}`]
  lines.push(`replay: npm run sim -- --world ${plan.world} --seed ${plan.seed} --trace`)
  return lines.join('\n')
}

export function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  } catch {
    return 'unknown: no git here'
  }
}
