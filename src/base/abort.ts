/**
 * Listening to a caller's AbortSignal. However many calls share a signal, it gets one listener: Node warns of
 * a leak from the eleventh on, and users share one signal among thousands of calls.
 */

interface Listening {
  readonly fires: Set<() => void>
  readonly listener: () => void
}

const signals = new WeakMap<AbortSignal, Listening>()

/**
 * Calls `fire` when the signal fires; never when it has fired already, which the caller looks at first.
 * Returns what ends the listening.
 */
export function onAbort(signal: AbortSignal, fire: () => void): () => void {
  const listening = signals.get(signal) ?? listen(signal)
  // The same function may be given twice: each has its own end.
  const own = () => fire()
  listening.fires.add(own)
  return () => {
    if (!listening.fires.delete(own) || listening.fires.size > 0) return
    signal.removeEventListener('abort', listening.listener)
    if (signals.get(signal) === listening) signals.delete(signal)
  }
}

function listen(signal: AbortSignal): Listening {
  const fires = new Set<() => void>()
  const listener = () => {
    for (const fire of fires) fire()
  }
  signal.addEventListener('abort', listener)
  const listening = { fires, listener }
  signals.set(signal, listening)
  return listening
}
