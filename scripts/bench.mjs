// Benchmarks, compiled: npm run bench                        the hot paths alone, which need no broker
//                       npm run bench -- NAME [options …]     bench/NAME.ts with its own options
//
// On a shared machine a figure means something beside others of the same run only.

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const hotPaths = ['records', 'rpc', 'net']

const [name, ...options] = process.argv.slice(2)
const chosen = name === undefined ? hotPaths : [name]
for (const each of chosen) {
  const file = join(import.meta.dirname, '../build/bench', `${each}.js`)
  if (!existsSync(file)) {
    process.stderr.write(`bench: there is no bench/${each}.ts\n`)
    process.exit(2)
  }
  process.stdout.write(`\n━━ ${each}\n`)
  const { status } = spawnSync(process.execPath, [file, ...options], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
