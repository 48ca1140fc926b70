// Where a client's time goes: node profile.mjs CLIENT [CASE] runs one measurement under --cpu-prof and prints the functions
// with the most self time. The percentages are of the time that the process was not idle.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'

const [client, name = 'consume-100B', brokers = '127.0.0.1:19092'] = process.argv.slice(2)
const here = new URL('.', import.meta.url).pathname
const folder = mkdtempSync(`${tmpdir()}/bench-profile-`)
const out = execFileSync(
  process.execPath,
  [
    '--cpu-prof',
    `--cpu-prof-dir=${folder}`,
    '--cpu-prof-interval=500',
    'worker.mjs',
    JSON.stringify({ client, case: name, brokers })
  ],
  { cwd: here, encoding: 'utf8' }
)
const result = JSON.parse(
  out
    .split('\n')
    .find(l => l.startsWith('RESULT '))
    .slice(7)
)
const profile = JSON.parse(readFileSync(`${folder}/${readdirSync(folder)[0]}`, 'utf8'))

const self = new Map(),
  byId = new Map(profile.nodes.map(n => [n.id, n]))
let busy = 0
profile.samples.forEach((id, i) => {
  const { functionName, url, lineNumber } = byId.get(id).callFrame,
    t = profile.timeDeltas[i]
  if (functionName === '(idle)') return
  busy += t
  const where = url
    ? `${url
        .replace(/^file:\/\//, '')
        .replace(/.*node_modules\//, '')
        .replace(here, '')}:${lineNumber + 1}`
    : ''
  const key = `${functionName || '(anonymous)'}|${where}`
  self.set(key, (self.get(key) ?? 0) + t)
})
console.log(
  `${client}, ${name}: ${Math.round(result.rate).toLocaleString('en-US')} records/s under the profiler, ${(busy / 1e6).toFixed(2)} s busy\n\n| self time | function | where |\n|--:|---|---|`
)
for (const [key, t] of [...self].sort((a, b) => b[1] - a[1]).slice(0, 15)) {
  const [f, where] = key.split('|')
  console.log(`| ${((t / busy) * 100).toFixed(1)} % | ${f} | ${where} |`)
}
