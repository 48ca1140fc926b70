// Playhead's own lint rules, for oxlint. They hold the two ideas that no ready-made rule knows: one
// direction of dependency, and a world that comes in through the constructor.
//
// A file's place is its path after the last `src/`, so that a fixture can pretend to be any file.

/** Each layer, and the layers below it that it may import. `node` is base/node/, the real world's Env. */
const layers = {
  base: [],
  protocol: ['base'],
  net: ['base'],
  node: ['net', 'protocol', 'base'],
  group: ['protocol', 'base'],
  store: ['group', 'protocol', 'base'],
  rpc: ['group', 'protocol', 'base'],
  client: ['rpc', 'group', 'protocol', 'base'],
  broker: ['rpc', 'store', 'group', 'protocol', 'base'],
  entry: ['node', 'broker', 'client', 'rpc', 'store', 'group', 'protocol', 'net', 'base'],
  cli: ['entry', 'node', 'broker', 'client', 'rpc', 'store', 'group', 'protocol', 'net', 'base']
}

/** Files that may touch the world: they make an Env, or are one implementation of a port. */
const worldly = [
  /^[^/]+\.ts$/,
  /^cli\//,
  /^base\/node\b/,
  /^net\/tcp\b/,
  /^net\/tls\b/,
  /^store\/lmdb\b/
]

/** Decisions without I/O: not even promises. */
const pure = [/^group\//, /^protocol\//]

/** Modules of Node that compute and do nothing else; they are fine above the pure layers. */
const harmless = ['node:assert', 'node:assert/strict', 'node:buffer', 'node:events', 'node:util']

/** Globals that reach the world, and what to use instead. */
const instead = {
  setTimeout: 'env.clock.after()',
  clearTimeout: 'the Timer that env.clock.after() returned',
  setInterval: 'env.clock.after(), again each time',
  clearInterval: 'the Timer that env.clock.after() returned',
  setImmediate: 'env.clock.soon()',
  clearImmediate: 'the Timer that env.clock.soon() returned',
  queueMicrotask: 'env.clock.soon()',
  performance: 'env.clock.monotonic()',
  process: 'an option that the entry or the command line passes in',
  console: 'env.log',
  crypto: 'env.cpu (randomBytes, hash, hmac, pbkdf2)',
  fetch: 'env.net',
  WebSocket: 'env.net',
  'Date.now': 'env.clock.now()',
  'new Date()': 'env.clock.now()',
  'Math.random': 'env.random.next()'
}

/** Where one goes instead, for an import that is not allowed. */
function advice(from, to) {
  if (to === 'node') return 'take an Env: only the entries choose the real world'
  if (to === 'net') return 'use env.net: only the entries choose a network'
  if (to === 'store') return 'take the store as a constructor argument'
  if (from === 'client' && to === 'broker')
    return 'they meet on the wire only; what both need belongs in protocol or group'
  if (from === 'broker' && to === 'client')
    return 'they meet on the wire only; what both need belongs in protocol or group'
  if (to === 'entry') return 'import the file that declares it'
  return `move what both need down to a layer that both may import (${layers[from].join(', ') || 'none'})`
}

/** `group/ledger/entry.ts` for a file of the product, undefined for any other. */
function placeOf(filename) {
  const path = filename.replaceAll('\\', '/')
  const at = path.lastIndexOf('/src/')
  return at < 0 ? undefined : path.slice(at + 5)
}

function layerOf(place) {
  if (/^base\/node\b/.test(place)) return 'node'
  const slash = place.indexOf('/')
  return slash < 0 ? 'entry' : place.slice(0, slash)
}

/** Calls `visit(node, specifier)` for every module that a file names. */
function eachImport(visit) {
  const named = node => node.source && visit(node.source, String(node.source.value))
  return {
    ImportDeclaration: named,
    ExportNamedDeclaration: named,
    ExportAllDeclaration: named,
    ImportExpression: named
  }
}

/** Uses of names that the file does not declare, among them those of the language itself. */
function globalReferences(context) {
  const { through, variables } = context.sourceCode.scopeManager.globalScope
  const ofTheLanguage = variables.filter(({ defs }) => defs.length === 0)
  return [...through, ...ofTheLanguage.flatMap(({ references }) => references)]
}

const layersRule = {
  create(context) {
    const place = placeOf(context.filename)
    if (place === undefined) return {}
    const from = layerOf(place)
    const allowed = layers[from]
    return eachImport((node, specifier) => {
      if (!specifier.startsWith('.')) return
      const target = new URL(specifier, `file:///src/${place}`).pathname
      if (!target.startsWith('/src/')) {
        return context.report({
          node,
          message: 'src/ imports nothing outside src/: it ships alone'
        })
      }
      const to = layerOf(target.slice(5))
      if (allowed === undefined) {
        return context.report({
          node,
          message: `src/${from}/ is not a layer: see scripts/lint/plugin.mjs`
        })
      }
      if (to === from || allowed.includes(to)) return
      context.report({ node, message: `${from} must not import ${to}: ${advice(from, to)}` })
    })
  }
}

const worldRule = {
  create(context) {
    const place = placeOf(context.filename)
    if (place === undefined || worldly.some(pattern => pattern.test(place))) return {}
    const isPure = pure.some(pattern => pattern.test(place))
    const ban = (node, name) =>
      context.report({ node, message: `${name} reaches the world: use ${instead[name]} instead` })
    return {
      ...eachImport((node, specifier) => {
        if (specifier.startsWith('.') || (!isPure && harmless.includes(specifier))) return
        const message = specifier.startsWith('node:')
          ? `${specifier} belongs behind a port of base/env.ts: implement it in base/node, and take it from env`
          : `the package ${specifier} belongs behind a port of base/env.ts: import it in base/node or store/lmdb`
        context.report({ node, message })
      }),
      NewExpression(node) {
        if (node.callee.name === 'Date' && node.arguments.length === 0) ban(node, 'new Date()')
      },
      MemberExpression(node) {
        const name = `${node.object.name}.${node.property.name}`
        if (!node.computed && Object.hasOwn(instead, name)) ban(node, name)
        else if (node.object.name === 'globalThis' && Object.hasOwn(instead, node.property.name)) {
          ban(node, node.property.name)
        }
      },
      'Program:exit'() {
        for (const { identifier } of globalReferences(context)) {
          if (Object.hasOwn(instead, identifier.name)) ban(identifier, identifier.name)
        }
      }
    }
  }
}

const pureRule = {
  create(context) {
    const place = placeOf(context.filename)
    if (place === undefined || !pure.some(pattern => pattern.test(place))) return {}
    const message =
      'group and protocol decide, they do not wait: return what is to be done, and let the host above await it'
    const check = node => node.async && context.report({ node, message })
    return {
      FunctionDeclaration: check,
      FunctionExpression: check,
      ArrowFunctionExpression: check,
      'Program:exit'() {
        for (const { identifier, isValueReference } of globalReferences(context)) {
          if (identifier.name === 'Promise' && isValueReference !== false) {
            context.report({ node: identifier, message })
          }
        }
      }
    }
  }
}

/** `new Promise(resolve => setTimeout(resolve, ms))`, and the module that has it ready-made. */
const sleepRule = {
  create(context) {
    if (placeOf(context.filename) !== undefined || !/\/test\//.test(context.filename)) return {}
    const message =
      'a test waits for a condition or in virtual time, never for a while: too short on a busy machine, too long on others'
    return {
      ...eachImport((node, specifier) => {
        if (specifier === 'node:timers/promises') context.report({ node, message })
      }),
      NewExpression(node) {
        const [executor] = node.arguments
        const call =
          executor?.body?.type === 'CallExpression'
            ? executor.body
            : executor?.body?.body?.[0]?.expression
        if (node.callee.name !== 'Promise' || call?.callee?.name !== 'setTimeout') return
        if (call.arguments[0]?.name === executor.params[0]?.name) context.report({ node, message })
      }
    }
  }
}

export default {
  meta: { name: 'playhead' },
  rules: { layers: layersRule, world: worldRule, pure: pureRule, 'no-sleep': sleepRule }
}
