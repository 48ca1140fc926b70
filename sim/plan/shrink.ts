/** Makes a plan that breaks a rule smaller, as long as it still breaks it: by leaving out, then by making it plain. */
import { calm } from '../world/wire.ts'
import type { Plan } from './plan.ts'

/** Tries at most. */
const tries = 80

/** A plan that `fails` too, and has no more than that needs, as far as the tries went. */
export async function simpler(plan: Plan, fails: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  let best = plan
  let left = tries
  const attempt = async (candidate: Plan): Promise<boolean> => {
    if (left-- <= 0 || !(await fails(candidate))) return false
    best = candidate
    return true
  }
  for (const faultsMs of [2_000, 5_000, 10_000, 20_000]) {
    if (faultsMs < best.faultsMs && (await attempt({ ...best, faultsMs }))) break
  }
  await leaveOut(best.actions, actions => attempt({ ...best, actions }))
  await leaveOut(best.members, members => attempt({ ...best, members }))
  await leaveOut(best.producers, producers => attempt({ ...best, producers }))
  await leaveOut(best.topics, topics => topics.length > 0 && attempt({ ...best, topics }))
  for (const simplify of plainer) await attempt({ ...best, ...simplify(best) })
  return best
}

/** Halves first, then ever smaller parts, down to single items. */
async function leaveOut<T>(
  list: readonly T[],
  attempt: (list: readonly T[]) => boolean | Promise<boolean>
): Promise<void> {
  let kept = list
  for (
    let size = Math.ceil(kept.length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  ) {
    for (let at = 0; at < kept.length; ) {
      const without = [...kept.slice(0, at), ...kept.slice(at + size)]
      if (await attempt(without)) kept = without
      else at += size
    }
  }
}

const plainer: readonly ((plan: Plan) => Partial<Plan>)[] = [
  () => ({ brokers: 1 }),
  () => ({ wallOffsetsMs: {} }),
  () => ({ durability: 'fsync' }),
  ({ wire }) => ({ wire: { ...calm, latencyMs: wire.latencyMs } }),
  ({ wire }) => ({ wire: { ...wire, reset: 0 } }),
  ({ wire }) => ({ wire: { ...wire, refused: 0, halfOpen: 0 } }),
  ({ wire }) => ({ wire: { ...wire, tail: 0 } }),
  ({ wire }) => ({ wire: { ...wire, late: 0 } }),
  ({ wire }) => ({ wire: { ...wire, cuts: 0 } }),
  ({ topics }) => ({ topics: topics.map(topic => ({ ...topic, partitions: 1 })) }),
  ({ producers }) => ({ producers: producers.map(one => ({ ...one, burst: 1 })) }),
  ({ producers }) => ({
    producers: producers.map(one => ({ ...one, compression: 'none', bytes: 0, lingerMs: 0 }))
  }),
  ({ members }) => ({
    members: members.map(one => ({ ...one, handlerMs: 0, handlerThrows: 0 }))
  })
]
