#!/usr/bin/env node
// Clients side by side: every measurement in a process of its own, the clients taking turns, several rounds. It starts
// no Kafka; `npm run bench -- kafka` does, and passes its options on to here.
//
//   node run.mjs [--clients a,b@other] [--cases consume-100B,idle] [--rounds 5] [--node PATH] [--timeout SECONDS]
//                [--brokers 127.0.0.1:19092] [--others other=127.0.0.1:9000,…] [--out results/NAME.json] [--list]
//
// A client is a file in clients/. `ceiling-…` shows what is possible; those run when named. `playhead@other` runs
// against another broker of --others, in the same rounds.
import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { cases } from './lib/cases.mjs'
import { table } from './lib/report.mjs'

const here = new URL('.', import.meta.url).pathname
const { values: options } = parseArgs({
  options: {
    clients: { type: 'string' },
    cases: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    brokers: { type: 'string', default: '127.0.0.1:19092' },
    others: { type: 'string', default: '' },
    out: { type: 'string', default: `${here}results/latest.json` },
    timeout: { type: 'string', default: '90' },
    node: { type: 'string', default: process.execPath },
    list: { type: 'boolean' }
  }
})
const files = readdirSync(`${here}clients`).map(name => name.replace('.mjs', ''))
if (options.list) {
  console.log(`clients: ${files.join(', ')}\ncases: ${Object.keys(cases).join(', ')}`)
  process.exit()
}

const brokersOf = new Map([
  ['', options.brokers],
  ...options.others
    .split(',')
    .filter(Boolean)
    .map(site => site.split('='))
])
const chosenCases = chosen(options.cases, Object.keys(cases), 'case')
const chosenClients = chosen(
  options.clients,
  files.filter(name => !name.startsWith('ceiling-')),
  'client',
  name => files.includes(name.split('@')[0]) && brokersOf.has(name.split('@')[1] ?? '')
)

const about = {}
for (const client of chosenClients) {
  const info = await loaded(client.split('@')[0])
  if (info) about[client] = info
}
const results = {
  when: new Date().toISOString(),
  node: (await ask(['-v'], 5)).out.trim(),
  cpus: `${cpus().length} × ${cpus()[0].model}`,
  rounds: Number(options.rounds),
  clients: about,
  runs: []
}
mkdirSync(`${here}results`, { recursive: true })
for (const name of chosenCases) await runCase(name, cases[name])
console.log(table(results))
console.error(`written to ${options.out}`)
process.exit()

function chosen(text, all, what, known = name => all.includes(name)) {
  const names = text ? text.split(',') : all
  const strange = names.find(name => !known(name))
  if (strange === undefined) return names
  console.error(`no ${what} named ${strange}; there are: ${all.join(', ')}`)
  process.exit(2)
}

/** What a client says of itself; null, with a line that says why, when it can't be loaded here. */
async function loaded(client) {
  const code = `const { info } = await import('./clients/${client}.mjs')
    process.stdout.write(JSON.stringify(info))
    process.exit()`
  const { out, err } = await ask(['--input-type=module', '-e', code], 20)
  if (!out) {
    console.error(`${client} does not load: ${err.trim().split('\n').slice(0, 6).join('\n')}`)
    return null
  }
  const info = JSON.parse(out)
  info.version ??= createRequire(import.meta.url)(
    `./node_modules/${info.package}/package.json`
  ).version
  return info
}

async function runCase(name, one) {
  const able = chosenClients.filter(client => about[client] && one.supports(about[client]))
  for (const brokers of new Set(able.map(brokersFor))) {
    // In a process of its own: a child's peak RSS starts at its parent's size, so this process must stay small.
    const { out, err } = one.prepare ? await work({ prepare: name, brokers }, 300) : {}
    if (out || err) {
      console.error(`${name} could not be prepared: ${out}${err}`)
      return
    }
  }
  for (let round = 0; round < results.rounds; round++) {
    // Every round starts with another client, so that none is always first or always behind the same neighbour.
    const order = able.map((_, i) => able[(i + round) % able.length])
    if (round % 2) order.reverse()
    for (const client of order) await measure(name, client, round)
  }
}

async function measure(name, client, round) {
  const brokers = brokersFor(client)
  if (cases[name].prepare) await work({ warm: name, brokers }, 60)
  const job = { client: client.split('@')[0], case: name, brokers }
  const { out, err } = await work(job, Number(options.timeout))
  const said = word => out.split('\n').find(line => line.startsWith(word))
  const run = { case: name, client, round, load: loadavg()[0] }
  if (said('RESULT ')) run.result = JSON.parse(said('RESULT ').slice(7))
  else run.error = (said('FAILED ') ?? err.trim()).slice(-600)
  results.runs.push(run)
  writeFileSync(options.out, JSON.stringify(results, null, 1))
  const shown = run.result
    ? Object.entries(run.result).map(([key, value]) => `${key}=${Number(value.toPrecision(4))}`)
    : [`ERROR ${run.error}`]
  console.error(`${name} #${round + 1} ${client}: ${shown.join(' ')}`)
}

function brokersFor(client) {
  return brokersOf.get(client.split('@')[1] ?? '')
}

function work(job, timeoutSeconds) {
  return ask(['worker.mjs', JSON.stringify(job)], timeoutSeconds)
}

/** Runs Node here, in a process group of its own, which is ended whole when it takes too long. */
function ask(args, timeoutSeconds) {
  return new Promise(resolve => {
    const child = spawn(options.node, args, {
      cwd: here,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true
    })
    let out = ''
    let err = ''
    child.stdout.on('data', data => (out += data))
    child.stderr.on('data', data => (err += data))
    const timer = setTimeout(() => {
      err += `\nno result in ${timeoutSeconds} s`
      process.kill(-Number(child.pid), 'SIGKILL')
    }, timeoutSeconds * 1000)
    child.on('close', () => {
      clearTimeout(timer)
      resolve({ out, err })
    })
  })
}
