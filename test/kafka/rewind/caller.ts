/**
 * Who rewinds the group, as a process of its own, so that it can be killed with kill -9: it says so once its entries are
 * written, and has no answer then. Run by `team.ts`; what it is to do is its one argument, as JSON.
 */
import { Playhead } from '../../../src/index.ts'
import type { Call } from './history.ts'

const { bootstrap, group, to } = JSON.parse(process.argv[2] ?? '{}') as Call
const client = new Playhead({ bootstrap, clientId: 'caller' })
const admin = client.admin()
await admin.rewind(await admin.planRewind(group, { to }), {
  timeoutMs: 90_000,
  onWritten: () => process.stdout.write('written\n')
})
await client.close()
