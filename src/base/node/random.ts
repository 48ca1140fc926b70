/** Chance from V8, which seeds it from the system's entropy for each process. Not for secrets. */

import type { Random } from '../env.ts'

export const nodeRandom: Random = { next: () => Math.random() }
