// What the package ships, in dist/: the entries and the command line, each with the chunks it shares with the
// others, and their declarations. After `tsc`.
//
// One file in place of a hundred is what makes `import 'playhead'` cheap, and less than half the size. Names of classes,
// methods and functions stay, and each of them has lines of its own: a stack trace from a user's log must be readable.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { rolldown } from 'rolldown'
import { parseAst } from 'rolldown/parseAst'
import { dts } from 'rolldown-plugin-dts'

process.chdir(join(import.meta.dirname, '..'))

const { exports, bin, dependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
const entries = Object.values(exports)
  .map(entry => entry.default)
  .filter(Boolean)
  .map(path => basename(path, '.js'))
const external = [/^node:/, ...Object.keys(dependencies)]

/** The command line's own file is the one that runs when it is loaded. */
const commands = { [basename(bin.playhead, '.js')]: 'build/src/cli/main.js' }

rmSync('dist', { recursive: true, force: true })
mkdirSync('dist/shared', { recursive: true })
await bundle(
  { ...from(entries, 'js'), ...commands },
  { comments: false, minify: { compress: true, mangle: { toplevel: false } } },
  { finish: inLines }
)
await bundle(from(entries, 'd.ts'), {}, { plugins: [dts({ dtsInput: true, tsconfig: false })] })

/** Each entry's file in build/, by its name. */
function from(names, suffix) {
  return Object.fromEntries(names.map(name => [name, `build/src/${name}.${suffix}`]))
}

/** What entries share is named after the module that begins it: for the client that is `src/index.js`. */
function chunkFileNames({ name }) {
  return `shared/${name === 'src' ? 'client' : '[name]'}.js`
}

/** A line for each statement of a module, and for each member of its classes. */
function inLines(written) {
  const code = inAscii(written)
  const begins = parseAst(code).body.flatMap(statement => [statement, ...members(statement)])
  const cuts = [...begins.map(({ start }) => start), code.length]
  return cuts.map((cut, i) => code.slice(cuts[i - 1] ?? 0, cut).trimEnd()).join('\n')
}

/** One character of two bytes would make V8 keep the whole file in two bytes, and read it more slowly. */
function inAscii(code) {
  return code.replace(/[^\0-\x7f]/g, c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

function members(statement) {
  const declared = statement.declaration ?? statement
  const values = [declared, ...(declared.declarations ?? []).map(({ init }) => init)]
  return values.filter(value => value?.type.startsWith('Class')).flatMap(({ body }) => body.body)
}

async function bundle(input, output, { plugins = [], finish = code => code }) {
  const checks = { pluginTimings: false }
  const bundled = await rolldown({ input, external, plugins, checks, platform: 'node' })
  try {
    const { output: chunks } = await bundled.generate({ format: 'esm', chunkFileNames, ...output })
    for (const { fileName, code } of chunks) writeFileSync(join('dist', fileName), finish(code))
  } finally {
    await bundled.close()
  }
}
