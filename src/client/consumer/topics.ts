/**
 * Which topics a consumer subscribes to. Names go to the coordinator as they are. Patterns, too, where they mean the same
 * in its language (RE2) as in JavaScript: then the coordinator finds new topics by itself. A subscription with a pattern
 * that RE2 doesn't have (look-around, back-references, flags other than `i`) is matched here, again and again, and goes
 * out as names.
 */
import type { Cluster } from '../../rpc/cluster.ts'
import { Metadata as MetadataApi } from '../../protocol/api/metadata.ts'
import type { Subscription } from '../../group/member/protocol.ts'
import { invalid } from './options.ts'

/** Longest pattern that is taken. */
const maxPatternLength = 1_000

/**
 * What to tell the coordinator, or null when the patterns have to be matched here. It matches a pattern against the whole
 * name, JavaScript anywhere in it.
 */
export function subscriptionOf(topics: readonly (string | RegExp)[]): Subscription | null {
  const names = topics.filter(t => typeof t === 'string')
  const patterns: string[] = []
  for (const topic of topics) {
    if (typeof topic === 'string') continue
    const pattern = re2Of(topic)
    if (pattern === null) return null
    patterns.push(pattern)
  }
  const regex =
    patterns.length === 0 ? null : patterns.length === 1 ? patterns[0] : patterns.join('|')
  return { topics: names, regex: regex ?? null }
}

/** `pattern` in RE2's syntax, matching whole names; null when it may mean something else there. */
export function re2Of(pattern: RegExp): string | null {
  const { source, flags } = pattern
  if (source.length > maxPatternLength) {
    throw invalid(
      `the pattern ${source.slice(0, 40)}… has more than ${maxPatternLength} characters`
    )
  }
  // `g` and `y` are about searching on, `u` and `v` change nothing for what is let through below.
  if (/[^giuvsy]/.test(flags) || flags.includes('y')) return null
  if (!sameInRe2(source)) return null
  return `${flags.includes('i') ? '(?i)' : ''}(?:.*(?:${source}).*)`
}

/** Only what both languages read the same way: names of topics are [a-zA-Z0-9._-], so little is needed. */
function sameInRe2(source: string): boolean {
  let inClass = false
  for (let i = 0; i < source.length; i++) {
    const c = source[i] as string
    if (c === '\\') {
      const next = source[++i]
      if (next === undefined || !/[dDwWsS.\-_/^$*+?()[\]{}|\\]/.test(next)) return false
    } else if (inClass) {
      if (c === ']') inClass = false
      // `[[` and `&&` are sets within sets elsewhere.
      else if (c === '[' || c === '&') return false
    } else if (c === '[') {
      inClass = true
      // `[]` is empty in JavaScript, and a class that begins with `]` in RE2.
      const first = source[i + 1] === '^' ? source[i + 2] : source[i + 1]
      if (first === ']') return false
    } else if (c === '(' && source[i + 1] === '?') {
      if (source[i + 2] !== ':') return false
      i += 2
    } else if (c.charCodeAt(0) > 126) return false
  }
  return true
}

/** The topics of the cluster that `topics` names or matches, but for Kafka's own. */
export async function matchTopics(
  cluster: Cluster,
  topics: readonly (string | RegExp)[]
): Promise<string[]> {
  const names = new Set(topics.filter(t => typeof t === 'string'))
  for (const { topic, internal } of await cluster.listTopics()) {
    if (internal || names.has(topic)) continue
    for (const pattern of topics) {
      // A pattern with `g` or `y` remembers where it stopped: it is asked anew each time.
      if (typeof pattern === 'string') continue
      pattern.lastIndex = 0
      if (pattern.test(topic)) names.add(topic)
    }
  }
  return [...names].sort()
}

/** The names of topics by id, and their metadata in the cluster. Those that don't exist (any more) are left out. */
export async function topicNames(
  cluster: Cluster,
  ids: ReadonlySet<string>
): Promise<ReadonlyMap<string, string>> {
  const names = known(cluster, ids)
  if (names.size === ids.size) return names
  const unknown = [...ids].filter(id => !names.has(id))
  const answer = await cluster.request(
    MetadataApi,
    {
      topics: unknown.map(topicId => ({ topicId, name: null })),
      allowAutoTopicCreation: false,
      includeTopicAuthorizedOperations: false
    },
    { to: 'any', minVersion: 12 }
  )
  const found = answer.topics.flatMap(({ errorCode, name }) =>
    errorCode === 0 && name !== null ? [name] : []
  )
  if (found.length > 0) await cluster.refresh({ topics: found })
  return known(cluster, ids)
}

function known(cluster: Cluster, ids: ReadonlySet<string>): Map<string, string> {
  const names = new Map<string, string>()
  for (const { topic, topicId } of cluster.metadata.topics.values()) {
    if (ids.has(topicId)) names.set(topicId, topic)
  }
  return names
}
