/** Runs the command line as its users do: a process of its own. */
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export class Cli {
  readonly #child: ChildProcess
  readonly ended: Promise<Ended>
  out = ''
  err = ''
  /** Whole lines on stdout. */
  lines = 0
  #heard: () => void = () => {}
  #next: Promise<void> | null = null

  constructor(
    args: readonly string[],
    bootstrap: readonly string[],
    input?: string,
    secrets: Readonly<Record<string, string>> = {}
  ) {
    this.#child = spawn(process.execPath, [main, ...args], {
      env: { ...process.env, PLAYHEAD_BOOTSTRAP: bootstrap.join(','), ...secrets },
      stdio: 'pipe'
    })
    this.#child.stdout?.on('data', chunk => {
      const text = String(chunk)
      this.out += text
      this.lines += text.split('\n').length - 1
      this.#heard()
    })
    this.#child.stderr?.on('data', chunk => {
      this.err += String(chunk)
      this.#heard()
    })
    this.ended = new Promise(resolve => {
      this.#child.on('close', code => {
        this.#heard()
        resolve({ code, out: this.out, err: this.err })
      })
    })
    this.#child.stdin?.end(input ?? '')
  }

  /** Resolves once `what` is true of what was printed; rejects when the process ends before. */
  async until(what: (printed: Cli) => boolean): Promise<void> {
    while (!what(this)) await this.heard()
  }

  /** Resolves when something more was printed; rejects when the process has ended. */
  heard(): Promise<void> {
    if (this.#child.exitCode !== null) throw new Error(`it ended: ${this.out}${this.err}`)
    this.#next ??= new Promise<void>(resolve => {
      this.#heard = () => {
        this.#next = null
        resolve()
      }
    })
    return this.#next
  }

  /** As Ctrl-C does. */
  interrupt(): void {
    this.#child.kill('SIGINT')
  }
}

/** Runs to the end. */
export function playhead(
  args: string,
  bootstrap: readonly string[],
  input?: string,
  secrets?: Readonly<Record<string, string>>
): Promise<Ended> {
  return new Cli(args.split(' '), bootstrap, input, secrets).ended
}
