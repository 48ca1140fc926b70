/** What may be set for a group (KIP-848's dynamic group configuration), and what holds where nothing is. */
import type { GroupConfig } from '../group/machine.ts'

/** Timeouts and limits of groups, by the broker's settings of Kafka. */
export interface GroupSettings {
  /** consumer.session.timeout.ms of groups that don't set it. Default 45,000. */
  readonly sessionTimeoutMs?: number | undefined
  /** consumer.heartbeat.interval.ms of groups that don't set it. Default 5,000. */
  readonly heartbeatIntervalMs?: number | undefined
  /** group.min.session.timeout.ms: the least that a classic member may ask for. Default 6,000. */
  readonly minSessionTimeoutMs?: number | undefined
  /** group.max.session.timeout.ms. Default 1,800,000. */
  readonly maxSessionTimeoutMs?: number | undefined
  /** group.initial.rebalance.delay.ms: how long the first members of a classic group wait for more. Default 0. */
  readonly initialRebalanceDelayMs?: number | undefined
  /** The most members of one group. Default 10,000. */
  readonly maxSize?: number | undefined
  /** offsets.retention.minutes, in ms: how long offsets are kept that nobody uses. Default 7 days. */
  readonly offsetsRetentionMs?: number | undefined
}

interface Setting {
  readonly default: number
  readonly least: number
  readonly most: number
}

/** By Kafka's names, with Kafka's bounds. */
export const groupConfigs: ReadonlyMap<string, Setting> = new Map([
  ['consumer.session.timeout.ms', { default: 45_000, least: 45_000, most: 60_000 }],
  ['consumer.heartbeat.interval.ms', { default: 5_000, least: 5_000, most: 15_000 }]
])

/** What is wrong with a setting; undefined: nothing. */
export function groupConfigFault(name: string, value: string | null): string | undefined {
  const setting = groupConfigs.get(name)
  if (setting === undefined) return `Unknown group config name: ${name}`
  const number = Number(value)
  if (value === null || !/^-?\d+$/.test(value.trim()) || number > 2 ** 31 - 1) {
    return `Invalid value ${value} for configuration ${name}: Not a number of type INT`
  }
  if (number < setting.least) return `${name} must be greater than or equal to ${setting.least}`
  if (number > setting.most) return `${name} must be less than or equal to ${setting.most}`
  return undefined
}

export const defaultRetentionMs = 7 * 24 * 3_600_000

export function groupConfig(
  settings: GroupSettings,
  set: ReadonlyMap<string, string>
): GroupConfig {
  const number = (name: string) => (set.has(name) ? Number(set.get(name)) : undefined)
  return {
    sessionTimeoutMs: number('consumer.session.timeout.ms') ?? settings.sessionTimeoutMs ?? 45_000,
    heartbeatIntervalMs:
      number('consumer.heartbeat.interval.ms') ?? settings.heartbeatIntervalMs ?? 5_000,
    maxSize: settings.maxSize ?? 10_000,
    minSessionTimeoutMs: settings.minSessionTimeoutMs ?? 6_000,
    maxSessionTimeoutMs: settings.maxSessionTimeoutMs ?? 1_800_000,
    initialRebalanceDelayMs: settings.initialRebalanceDelayMs ?? 0
  }
}
