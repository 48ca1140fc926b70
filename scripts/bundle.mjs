// What the package ships, in dist/: the entries and the command line, each with the chunks it shares with the
// others, and their declarations. After `tsc`.
//
// One file in place of a hundred is what makes `import 'playhead'` cheap, and a tenth of the size. Names of classes,
// methods and functions stay, and so does a line per statement: a stack trace from a user's log must be readable.

import { readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import { rolldown } from 'rolldown'
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
await bundle(
  { ...from(entries, 'js'), ...commands },
  {
    comments: false,
    minify: { compress: true, mangle: { toplevel: false }, codegen: { removeWhitespace: false } }
  }
)
await bundle(from(entries, 'd.ts'), {}, [dts({ dtsInput: true, tsconfig: false })])

/** Each entry's file in build/, by its name. */
function from(names, suffix) {
  return Object.fromEntries(names.map(name => [name, `build/src/${name}.${suffix}`]))
}

/** What entries share is named after the module that begins it: for the client that is `src/index.js`. */
function chunkFileNames({ name }) {
  return `shared/${name === 'src' ? 'client' : '[name]'}.js`
}

async function bundle(input, output, plugins = []) {
  const bundled = await rolldown({ input, external, plugins, platform: 'node' })
  try {
    await bundled.write({ dir: 'dist', format: 'esm', chunkFileNames, ...output })
  } finally {
    await bundled.close()
  }
}
