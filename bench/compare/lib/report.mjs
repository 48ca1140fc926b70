// Tables in Markdown out of a results file: node lib/report.mjs results/latest.json
import { readFileSync } from 'node:fs'

const columns = {
  consume: [
    ['rate', 'records/s'],
    ['mb_s', 'MB/s'],
    ['cpu_s_per_million', 'CPU s / M'],
    ['first_ms', 'first record ms'],
    ['rss_mb', 'peak RSS MB']
  ],
  produce: [
    ['rate', 'records/s'],
    ['mb_s', 'MB/s'],
    ['ack_p50_ms', 'ack p50 ms'],
    ['ack_p99_ms', 'ack p99 ms'],
    ['cpu_s_per_million', 'CPU s / M'],
    ['rss_mb', 'peak RSS MB']
  ],
  latency: [
    ['p50_ms', 'p50 ms'],
    ['p99_ms', 'p99 ms'],
    ['p999_ms', 'p99.9 ms'],
    ['max_ms', 'max ms'],
    ['due_p99_ms', 'p99 from due time ms'],
    ['cpu_s', 'CPU s'],
    ['rss_mb', 'peak RSS MB']
  ],
  join: [
    ['join_ms', 'join ms'],
    ['second_ms', '2nd member ms'],
    ['stall_min_ms', 'stall, best partition ms'],
    ['stall_max_ms', 'stall, worst partition ms']
  ],
  idle: [
    ['cpu_ms_per_s', 'CPU ms / s'],
    ['rss_mb', 'RSS MB']
  ]
}
const kindOf = name =>
  name.startsWith('consume')
    ? 'consume'
    : name.startsWith('produce')
      ? 'produce'
      : name.startsWith('join')
        ? 'join'
        : name === 'idle'
          ? 'idle'
          : 'latency'

const number = v =>
  v === null || v === undefined || Number.isNaN(v)
    ? '–'
    : v >= 1000
      ? Math.round(v).toLocaleString('en-US')
      : v >= 100
        ? v.toFixed(0)
        : v >= 10
          ? v.toFixed(1)
          : v.toFixed(2)
const median = list => {
  const s = [...list].sort((a, b) => a - b),
    k = s.length >> 1
  return s.length % 2 ? s[k] : (s[k - 1] + s[k]) / 2
}

export function summary(results) {
  const out = {}
  for (const { case: name, client, result, error } of results.runs) {
    const cell = ((out[name] ??= {})[client] ??= { runs: [], errors: [] })
    if (result) cell.runs.push(result)
    else cell.errors.push(error)
  }
  return out
}

export function table(results) {
  let text = `Node ${results.node}, ${results.cpus}, ${results.rounds} rounds, ${results.when}\n`
  for (const [name, byClient] of Object.entries(summary(results))) {
    const cols = columns[kindOf(name)],
      up = cols[0][0] === 'rate'
    text += `\n### ${name}\n\n| client | ${cols.map(([, title], i) => (i === 0 ? `${title}: median | min | max` : title)).join(' | ')} |\n|---|${'--:|'.repeat(cols.length + 2)}\n`
    const rows = Object.entries(byClient)
      .map(([client, { runs, errors }]) => {
        const values = cols.map(([key]) =>
          runs.map(r => r[key]).filter(v => v !== null && v !== undefined)
        )
        return { client, errors, values, key: values[0].length ? median(values[0]) : NaN }
      })
      .sort((a, b) =>
        Number.isNaN(a.key) ? 1 : Number.isNaN(b.key) ? -1 : up ? b.key - a.key : a.key - b.key
      )
    for (const { client, errors, values, key } of rows) {
      const cells = values.map((list, i) =>
        i === 0
          ? list.length
            ? `**${number(key)}** | ${number(Math.min(...list))} | ${number(Math.max(...list))}`
            : '– | – | –'
          : list.length
            ? number(median(list))
            : '–'
      )
      const name = results.clients[client] ? `${client} ${results.clients[client].version}` : client
      text += `| ${name}${errors.length ? ` (${errors.length} failed)` : ''} | ${cells.join(' | ')} |\n`
    }
  }
  return text
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  for (const file of process.argv.slice(2))
    console.log(table(JSON.parse(readFileSync(file, 'utf8'))))
}
