/**
 * How groups lie in the store. Under a group's key: a part (one byte), and for parts that have several, a name. The
 * parts of each machine are declared with it; here is only what is of the group itself.
 */
import type { Cpu } from '../base/env.ts'
import { PlayheadError } from '../base/error.ts'
import type { Changes, Entry, Store } from '../base/store.ts'
import type { Write } from '../group/machine.ts'
import { array, message, string } from '../protocol/schema.ts'
import { afterAll, nameKey, spaces } from './keys.ts'
import { writeStored } from './stored.ts'

export const StoredGroup = message({
  name: 'StoredGroup',
  versions: [0, 0],
  flexible: 0,
  fields: { groupId: string(), type: string() }
})

/** What was set for a group, which need not be there. */
export const StoredGroupConfig = message({
  name: 'StoredGroupConfig',
  versions: [0, 0],
  flexible: 0,
  fields: { groupId: string(), configs: array({ name: string(), value: string() }) }
})

export const groupPart = 0x00
export const configPart = 0x01
/** From here to `offsetsPart` the parts belong to a group's machine, from there on to its offsets. */
const machinePart = 0x10
const offsetsPart = 0x20

/** Names of parts this long and shorter stand in keys as they are. */
const longestName = 400

export class GroupKeys {
  readonly #cpu: Pick<Cpu, 'hash'>

  constructor(cpu: Pick<Cpu, 'hash'>) {
    this.#cpu = cpu
  }

  of(groupId: string): Buffer {
    return nameKey(spaces.group, groupId, this.#cpu)
  }

  put(group: Buffer, { part, name, message: stored, value }: Write, changes: Changes): void {
    const key = this.#partKey(group, part, name)
    if (value === null) changes.delete(key)
    else changes.put(key, writeStored(stored, value))
  }

  /** Everything of the group goes, but what was configured for it. */
  delete(group: Buffer, changes: Changes): void {
    changes.delete(this.#partKey(group, groupPart, ''))
    changes.deleteRange(this.#partKey(group, machinePart, ''), afterAll(group))
  }

  /** Its members and epochs go, its offsets stay. */
  deleteMachine(group: Buffer, changes: Changes): void {
    const from = this.#partKey(group, machinePart, '')
    changes.deleteRange(from, this.#partKey(group, offsetsPart, ''))
  }

  #partKey(group: Buffer, part: number, name: string): Buffer {
    const length = Buffer.byteLength(name)
    if (length > longestName) {
      const hashed = this.#cpu.hash('sha256', Buffer.from(name, 'utf8'))
      return Buffer.concat([group, Buffer.from([part]), hashed])
    }
    const key = Buffer.allocUnsafe(group.length + 1 + length)
    group.copy(key)
    key[group.length] = part
    key.write(name, group.length + 1, 'utf8')
    return key
  }
}

/** All that is stored of groups: part and value, group by group. */
export function* storedGroups(store: Store): Generator<{ group: string; part: number } & Entry> {
  const head = Buffer.from([spaces.group])
  for (const { key, value } of store.range({ from: head, to: afterAll(head) })) {
    // See nameKey: length, whether the name is hashed, the name.
    const length = 3 + (key[2] === 1 ? 32 : (key[1] ?? 0))
    const part = key[length]
    if (part === undefined) throw new PlayheadError('CORRUPT_RECORDS', 'a group’s key ends early')
    yield { group: key.toString('latin1', 0, length), part, key, value }
  }
}
