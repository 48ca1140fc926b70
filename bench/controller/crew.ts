/** Many light members in one process: `node crew.js PORT COUNT WAIT_MS`. Tells its parent what they do, when asked. */
import { LightMember, type Tally } from './member.ts'

const [port = '', count = '', waitMs = ''] = process.argv.slice(2)
const tally: Tally = { registered: 0, heartbeats: 0, rewound: 0, errors: new Map() }
const members: LightMember[] = []

/** A listener's queue is short: not all at once. */
function join(): void {
  for (let index = 0; index < 50 && members.length < Number(count); index++) {
    members.push(new LightMember(Number(port), 'g', Number(waitMs), tally))
  }
  if (members.length < Number(count)) setTimeout(join, 20)
}
join()

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({
    cpuMs: (user + system) / 1e3,
    members: members.length,
    partitions: members.reduce((sum, member) => sum + member.partitions, 0),
    generation: Math.max(-1, ...members.map(({ generation }) => generation)),
    ...tally,
    errors: [...tally.errors]
  })
})
process.on('disconnect', () => process.exit(0))
