/**
 * The test of the tests: each mutant is a small wrong change of the product, a bug that some client had or a rule left
 * out, and the simulation must see it.
 *
 *   npm run sim:mutants                          all of them
 *   npm run sim:mutants -- NAME …                some, by a part of their name
 *   npm run sim:mutants -- --rotation 20         twenty, others each day
 *   npm run sim:mutants -- --runs 200            seeds to try for each. Default 300
 *
 * A mutant is a file here: which compiled file, what to find in it (once), what to put there instead. It is applied to
 * a copy of build/, so that nothing in the product knows of it.
 */
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

interface Mutant {
  readonly name: string
  /** What goes wrong, and where it was seen. */
  readonly about: string
  /** Below build/. */
  readonly file: string
  readonly find: string
  readonly replace: string
  /** In which worlds it is looked for. */
  readonly worlds: string
  /** Rules of which one should break; another one does too. */
  readonly rules: readonly string[]
  /** Not yet seen to be caught, or its code has changed: only tried when it is named. */
  readonly open?: boolean
}

interface Result {
  readonly mutant: Mutant
  /** Seeds until it was caught; undefined: it was not. */
  readonly seeds: number | undefined
  readonly rule: string
}

const folder = 'sim/mutants'
const copies = 'build/mutants'
/** The same for each run, so that a mutant that gets harder to catch shows. */
const base = '0x6d7574616e74'

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { runs: { type: 'string', default: '300' }, rotation: { type: 'string' } }
})

const say = (line: string) => void process.stdout.write(`${line}\n`)
const results: Result[] = []
for (const mutant of chosen()) {
  const result = await hunt(mutant)
  results.push(result)
  const { seeds, rule } = result
  const found =
    seeds === undefined ? `✖ NOT CAUGHT  ${rule}` : `✔ ${String(seeds).padStart(4)} seeds  ${rule}`
  say(`${found.padEnd(28)} ${mutant.name}: ${mutant.about}`)
}
rmSync(copies, { recursive: true, force: true })
const caught = results.filter(({ seeds }) => seeds !== undefined).length
say(`${caught} of ${results.length} mutants caught`)
process.exitCode = caught === results.length ? 0 : 1

function chosen(): Mutant[] {
  const all = readdirSync(folder)
    .filter(file => file.endsWith('.json'))
    .sort()
    .flatMap(file => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Mutant[])
  const named = all.filter(({ name, open = false }) =>
    positionals.length === 0 ? !open : positionals.some(part => name.includes(part))
  )
  const count = Number(options.rotation ?? Infinity)
  if (count >= named.length) return named
  const first = (Math.floor(Date.now() / 86_400_000) * count) % named.length
  return [...named, ...named].slice(first, first + count)
}

async function hunt(mutant: Mutant): Promise<Result> {
  const copy = join(copies, mutant.name.replace(/[^a-z0-9]+/gi, '-'))
  rmSync(copy, { recursive: true, force: true })
  mkdirSync(copy, { recursive: true })
  for (const part of ['src', 'sim']) {
    cpSync(join('build', part), join(copy, part), {
      recursive: true,
      filter: path => !/\.(map|d\.ts)$/.test(path)
    })
  }
  const target = join(copy, mutant.file)
  const code = readFileSync(target, 'utf8')
  if (code.split(mutant.find).length !== 2) {
    return { mutant, seeds: undefined, rule: 'its code is not there, or not once' }
  }
  writeFileSync(
    target,
    code.replace(mutant.find, () => mutant.replace)
  )
  const output = await playMutant(join(copy, 'sim/main.js'), mutant.worlds)
  rmSync(copy, { recursive: true, force: true })
  const seeds = /^(\d+) runs in/m.exec(output)?.[1]
  const rule =
    /^VIOLATION (\w+)/m.exec(output)?.[1] ?? (/is stuck/.test(output) ? 'stuck' : undefined)
  return { mutant, seeds: rule === undefined ? undefined : Number(seeds), rule: rule ?? '' }
}

function playMutant(main: string, worlds: string): Promise<string> {
  const flags = ['--runs', options.runs, '--base', base, '--world', worlds, '--no-shrink']
  const child = spawn(process.execPath, [main, ...flags])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  }
  return new Promise(resolve => {
    child.on('close', () => resolve(output))
  })
}
