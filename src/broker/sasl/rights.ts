/**
 * What counts as a rewind, which is destructive and therefore a right of its own (security.md S8): the request to a
 * group's controller, and whatever writes to a ledger, the companion group that holds the rewinds of another.
 */
import { DeleteGroups } from '../../protocol/api/delete-groups.ts'
import { OffsetCommit } from '../../protocol/api/offset-commit.ts'
import { OffsetDelete } from '../../protocol/api/offset-delete.ts'
import { RewindConsumer } from '../../protocol/api/rewind-consumer.ts'
import { TxnOffsetCommit } from '../../protocol/api/txn-offset-commit.ts'
import type { Api, RequestRead } from '../../protocol/schema.ts'

const ledgerSuffix = '.rewind'
const writers: ReadonlySet<number> = new Set([
  OffsetCommit.key,
  TxnOffsetCommit.key,
  OffsetDelete.key
])

export function isRewind(api: Api, request: RequestRead<Api>): boolean {
  if (api.key === RewindConsumer.key) return true
  if (writers.has(api.key)) return isLedger(request['groupId'])
  const names: unknown = api.key === DeleteGroups.key ? request['groupsNames'] : undefined
  return Array.isArray(names) && names.some(isLedger)
}

function isLedger(group: unknown): boolean {
  return typeof group === 'string' && group.endsWith(ledgerSuffix)
}
