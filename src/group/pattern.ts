/**
 * Topic patterns as Kafka's coordinator takes them (RE2 syntax, the whole name must match), on an engine that cannot
 * backtrack: the pattern becomes a machine of states, and a name is read once with the set of all states it could be
 * in. So time is at most length of name x size of pattern, whatever a client sends (security.md S16).
 *
 * Of RE2's syntax there is what names can be told by: literals, `.`, classes with ranges, escapes and [:names:],
 * groups (also `(?:` and `(?i)`), alternatives, the quantifiers and their lazy forms, anchors. Not there, and refused
 * as invalid: flags other than i and s, `\b`, Unicode classes, back references (which RE2 hasn't either).
 */

export const maxPatternLength = 1_000
/** Counted repeats are copies: `(a{100}){100}` is 10,000 states. RE2 has a limit too. */
const maxStates = 2_000
const maxRepeat = 1_000
const maxDepth = 100

export interface TopicPattern {
  matches(name: string): boolean
}

type Test = (code: number) => boolean

/** What a pattern is made of. */
type Node =
  | { readonly kind: 'one'; readonly test: Test }
  | { readonly kind: 'start' | 'end' }
  | { readonly kind: 'all'; readonly of: readonly Node[] }
  | { readonly kind: 'any'; readonly of: readonly Node[] }
  | { readonly kind: 'repeat'; readonly of: Node; readonly min: number; readonly max: number }

/** A state of the machine. `test`: reads one character; else its ways out are free. */
interface State {
  readonly test: Test | null
  readonly only: 'start' | 'end' | null
  readonly to: State[]
  readonly id: number
}

/** Compiles `pattern`; a string says why it can't be. */
export function topicPattern(pattern: string): TopicPattern | string {
  if (pattern.length > maxPatternLength) {
    return `a pattern has at most ${maxPatternLength} characters, not ${pattern.length}`
  }
  try {
    return compile(new Parser(pattern).parse())
  } catch (error) {
    if (error instanceof PatternError) return error.message
    throw error
  }
}

class PatternError extends Error {}

const classes: { readonly [escape: string]: Test } = {
  d: code => code >= 48 && code <= 57,
  w: code => /[0-9A-Za-z_]/.test(String.fromCharCode(code)),
  s: code => /[\t\n\f\r ]/.test(String.fromCharCode(code))
}
const posix: { readonly [name: string]: RegExp } = {
  alnum: /[0-9A-Za-z]/,
  alpha: /[A-Za-z]/,
  digit: /[0-9]/,
  lower: /[a-z]/,
  upper: /[A-Z]/,
  punct: /[!-/:-@[-`{-~]/,
  space: /[\t\n\v\f\r ]/,
  word: /[0-9A-Za-z_]/,
  xdigit: /[0-9A-Fa-f]/
}
const controls: { readonly [escape: string]: number } = { t: 9, n: 10, v: 11, f: 12, r: 13, a: 7 }

class Parser {
  readonly #text: string
  #at = 0
  #depth = 0
  #anyCase = false

  constructor(text: string) {
    this.#text = text
  }

  parse(): Node {
    const node = this.#alternatives()
    if (this.#at < this.#text.length) throw new PatternError(`unexpected ) at ${this.#at}`)
    return node
  }

  #alternatives(): Node {
    if (++this.#depth > maxDepth)
      throw new PatternError(`groups are nested more than ${maxDepth} deep`)
    const of = [this.#sequence()]
    while (this.#take('|')) of.push(this.#sequence())
    this.#depth--
    return of.length === 1 ? (of[0] as Node) : { kind: 'any', of }
  }

  #sequence(): Node {
    const of: Node[] = []
    while (this.#at < this.#text.length && !/[|)]/.test(this.#peek())) {
      const atom = this.#atom()
      if (atom !== undefined) of.push(this.#repeated(atom))
    }
    return { kind: 'all', of }
  }

  #repeated(atom: Node): Node {
    const bounds = this.#bounds()
    if (bounds === undefined) return atom
    this.#take('?')
    if (this.#bounds() !== undefined) throw new PatternError('invalid nested repetition operator')
    return { kind: 'repeat', of: atom, min: bounds[0], max: bounds[1] }
  }

  #bounds(): readonly [min: number, max: number] | undefined {
    if (this.#take('*')) return [0, Infinity]
    if (this.#take('+')) return [1, Infinity]
    if (this.#take('?')) return [0, 1]
    const counted = /^\{(\d{1,9})(,(\d{0,9}))?\}/.exec(this.#text.slice(this.#at, this.#at + 24))
    if (counted === null) return undefined
    this.#at += counted[0].length
    const min = Number(counted[1])
    const max = counted[2] === undefined ? min : counted[3] === '' ? Infinity : Number(counted[3])
    if (min > maxRepeat || (max !== Infinity && max > maxRepeat) || max < min) {
      throw new PatternError(`invalid repeat count ${counted[0]}`)
    }
    return [min, max]
  }

  /** Undefined: it was a flag. */
  #atom(): Node | undefined {
    const char = this.#next()
    switch (char) {
      case '.':
        return { kind: 'one', test: code => code !== 10 }
      case '^':
        return { kind: 'start' }
      case '$':
        return { kind: 'end' }
      case '(':
        return this.#group()
      case '[':
        return { kind: 'one', test: this.#class() }
      case '\\':
        return this.#escape()
      case '*':
      case '+':
      case '?':
        throw new PatternError(`missing argument to repetition operator: ${char}`)
      default:
        return { kind: 'one', test: this.#literal(char.charCodeAt(0)) }
    }
  }

  #group(): Node | undefined {
    const outer = this.#anyCase
    if (this.#take('?')) {
      const flags = /^(?:[is]*(:)|[is]+\)|P?<[A-Za-z0-9_]+>())/.exec(this.#text.slice(this.#at))
      if (flags === null) throw new PatternError('invalid or unsupported Perl syntax: (?')
      this.#at += flags[0].length
      if (!flags[0].includes('<') && flags[0].includes('i')) this.#anyCase = true
      if (flags[0].endsWith(')')) return undefined
    }
    const node = this.#alternatives()
    if (!this.#take(')')) throw new PatternError('missing closing )')
    this.#anyCase = outer
    return node
  }

  #escape(): Node {
    const char = this.#next()
    if (char === 'A') return { kind: 'start' }
    if (char === 'z') return { kind: 'end' }
    if (char === 'Q') return this.#quoted()
    return { kind: 'one', test: this.#escaped(char) }
  }

  #quoted(): Node {
    const end = this.#text.indexOf('\\E', this.#at)
    const text = this.#text.slice(this.#at, end < 0 ? undefined : end)
    this.#at = end < 0 ? this.#text.length : end + 2
    const of = Array.from(
      text,
      (char): Node => ({ kind: 'one', test: this.#literal(char.charCodeAt(0)) })
    )
    return { kind: 'all', of }
  }

  #escaped(char: string): Test {
    const known = classes[char.toLowerCase()]
    if (known !== undefined) return char === char.toLowerCase() ? known : code => !known(code)
    return this.#literal(this.#escapedCode(char))
  }

  #escapedCode(char: string): number {
    if (char === 'x') {
      const hex = /^(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/.exec(this.#text.slice(this.#at))
      if (hex === null) throw new PatternError('invalid escape sequence: \\x')
      this.#at += hex[0].length
      return Number.parseInt(hex[1] ?? hex[2] ?? '', 16)
    }
    const control = controls[char]
    if (control !== undefined) return control
    if (/[0-9A-Za-z]/.test(char)) throw new PatternError(`invalid escape sequence: \\${char}`)
    return char.charCodeAt(0)
  }

  #literal(wanted: number): Test {
    return this.#ignoringCase(code => code === wanted)
  }

  #ignoringCase(test: Test): Test {
    if (!this.#anyCase) return test
    return code => {
      const char = String.fromCharCode(code)
      return test(char.toLowerCase().charCodeAt(0)) || test(char.toUpperCase().charCodeAt(0))
    }
  }

  #class(): Test {
    const negated = this.#take('^')
    const tests: Test[] = []
    for (let first = true; first || this.#peek() !== ']'; first = false) {
      if (this.#at >= this.#text.length) throw new PatternError('missing closing ]')
      tests.push(this.#classItem())
    }
    this.#at++
    const any = this.#ignoringCase(code => tests.some(test => test(code)))
    return negated ? code => !any(code) : any
  }

  #classItem(): Test {
    const named = /^\[:(\^?)([a-z]+):\]/.exec(this.#text.slice(this.#at))
    if (named !== null) {
      const expression = posix[named[2] ?? '']
      if (expression === undefined) throw new PatternError(`invalid character class: ${named[0]}`)
      this.#at += named[0].length
      return code => expression.test(String.fromCharCode(code)) === (named[1] === '')
    }
    const char = this.#next()
    if (char === '\\' && /[dwsDWS]/.test(this.#peek())) return this.#escaped(this.#next())
    const low = char === '\\' ? this.#escapedCode(this.#next()) : char.charCodeAt(0)
    if (this.#peek() !== '-' || /^-?$|^-\]/.test(this.#text.slice(this.#at, this.#at + 2))) {
      return code => code === low
    }
    this.#at++
    const to = this.#next()
    const high = to === '\\' ? this.#escapedCode(this.#next()) : to.charCodeAt(0)
    if (high < low) throw new PatternError(`invalid character class range: ${char}-${to}`)
    return code => code >= low && code <= high
  }

  #peek(): string {
    return this.#text.charAt(this.#at)
  }

  #next(): string {
    if (this.#at >= this.#text.length) throw new PatternError('the pattern ends too early')
    return this.#text.charAt(this.#at++)
  }

  #take(char: string): boolean {
    if (this.#peek() !== char || char === '') return false
    this.#at++
    return true
  }
}

function compile(node: Node): TopicPattern {
  let count = 0
  const state = (test: Test | null, only: State['only'], ...to: State[]): State => {
    if (++count > maxStates) throw new PatternError('the pattern is too large')
    return { test, only, to, id: count }
  }
  const end = state(null, null)
  const first = build(node, end)
  const size = count + 1
  return new Reading(first, end, size)

  /** The state that reads `part` and then goes on at `next`. */
  function build(part: Node, next: State): State {
    switch (part.kind) {
      case 'one':
        return state(part.test, null, next)
      case 'start':
      case 'end':
        return state(null, part.kind, next)
      case 'all':
        return part.of.reduceRight((after, one) => build(one, after), next)
      case 'any':
        return state(null, null, ...part.of.map(one => build(one, next)))
      case 'repeat': {
        let after = next
        if (part.max === Infinity) {
          after = state(null, null, next)
          after.to.push(build(part.of, after))
        } else {
          for (let n = part.min; n < part.max; n++)
            after = state(null, null, next, build(part.of, after))
        }
        for (let n = 0; n < part.min; n++) after = build(part.of, after)
        return after
      }
    }
  }
}

/** All states a name could be in after what was read of it, and where each next character leads from there. */
interface Moment {
  readonly states: readonly State[]
  readonly next: Map<number, Moment>
  /** Whether a name may end here; undefined: nobody asked yet. */
  accepts: boolean | undefined
}

/** Beyond so many the machine forgets them and begins anew. */
const maxMoments = 1_000

/**
 * Reads names. Which moment follows which is worked out once, and then known for all names: so one name costs about its
 * length, however large the pattern.
 */
class Reading {
  readonly #first: State
  readonly #end: State
  readonly #size: number
  readonly #known = new Map<string, Moment>()
  #begin: Moment

  constructor(first: State, end: State, size: number) {
    this.#first = first
    this.#end = end
    this.#size = size
    this.#begin = this.#moment(this.#reach([first], 'start'))
  }

  matches(name: string): boolean {
    if (name === '') return this.#reach([this.#first], 'start', 'end').includes(this.#end)
    let now = this.#begin
    for (let at = 0; at < name.length; at++) {
      const code = name.charCodeAt(at)
      let next = now.next.get(code)
      if (next === undefined) {
        const after = now.states.filter(({ test }) => test?.(code)).flatMap(({ to }) => to)
        next = this.#moment(this.#reach(after))
        now.next.set(code, next)
      }
      if (next.states.length === 0) return false
      now = next
    }
    return (now.accepts ??= this.#reach(now.states, 'end').includes(this.#end))
  }

  /** The same states are the same moment. */
  #moment(states: readonly State[]): Moment {
    const key = states
      .map(({ id }) => id)
      .sort((a, b) => a - b)
      .join()
    let moment = this.#known.get(key)
    if (moment !== undefined) return moment
    if (this.#known.size >= maxMoments) {
      this.#known.clear()
      this.#begin = { ...this.#begin, next: new Map() }
    }
    moment = { states, next: new Map(), accepts: undefined }
    this.#known.set(key, moment)
    return moment
  }

  /** `from` and all that is reached from it without reading; anchors hold only where it is said. */
  #reach(from: readonly State[], ...at: readonly ('start' | 'end')[]): readonly State[] {
    const seen = new Uint8Array(this.#size)
    const reached: State[] = []
    const open = [...from]
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      if (seen[state.id]) continue
      seen[state.id] = 1
      reached.push(state)
      const closed = state.test !== null || (state.only !== null && !at.includes(state.only))
      if (!closed) open.push(...state.to)
    }
    return reached
  }
}
