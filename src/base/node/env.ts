/** The real world: what the package's entries and the command line give to everything below them. */

import { tcpNet } from '../../net/tcp.ts'
import type { Cpu, Env, Log } from '../env.ts'
import { nodeClock } from './clock.ts'
import { nodeCpu } from './cpu.ts'
import { lineLog } from './log.ts'
import { nodeRandom } from './random.ts'

export interface NodeEnvOptions {
  /** Default: warnings and errors, on standard error. */
  readonly log?: Log
  /** Default: `nodeCpu()`. */
  readonly cpu?: Cpu
}

export function nodeEnv(options: NodeEnvOptions = {}): Env {
  const log = options.log ?? lineLog({ level: 'warn' })
  return {
    clock: nodeClock,
    random: nodeRandom,
    net: tcpNet({ log }),
    cpu: options.cpu ?? nodeCpu(),
    log
  }
}
