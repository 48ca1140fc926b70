/** Something for each of some partitions: by topic id, then by partition. A topic without any has no entry. */

export function put<T>(
  to: Map<string, Map<number, T>>,
  topicId: string,
  partition: number,
  value: T
): void {
  const of = to.get(topicId)
  if (of === undefined) to.set(topicId, new Map([[partition, value]]))
  else of.set(partition, value)
}

/** Takes it out; returns what it was. */
export function drop<T>(
  from: Map<string, Map<number, T>>,
  topicId: string,
  partition: number
): T | undefined {
  const of = from.get(topicId)
  const value = of?.get(partition)
  of?.delete(partition)
  if (of?.size === 0) from.delete(topicId)
  return value
}
