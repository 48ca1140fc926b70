/**
 * What a long run must have come by: without these the rules were not put to the test. `npm run sim -- --minutes 10`
 * says which were never hit, and fails.
 */
export const requiredMarks: readonly string[] = [
  // What is done to the world.
  'do: crash',
  'do: power',
  'do: pause',
  'do: slow',
  'do: cut',
  'do: strand',
  'do: disk full',
  'do: move leader',
  'do: move coordinator',
  'do: stop listener',
  'do: start listener',
  'do: clock jump',
  'done: cut log',
  'done: create topic',
  'done: grow topic',
  'done: delete topic',
  'a chunk ends within a length',
  'a connection is refused',
  'a connection is reset',
  'a connection stays half open',
  'bytes arrive long after their sender closed',
  'the broker is back',
  // What the applications do.
  'a seek',
  'a handler hangs',
  'onRewind: quick',
  'onRewind: slow',
  'onRewind: throws',
  'onRewind: hangs',
  'reading ends: handler',
  'a transaction is committed',
  'a transaction is aborted',
  'work and its offsets are committed together',
  'work in a transaction fails: TRANSACTION_ABORTED',
  'records of an aborted transaction come again',
  // Rewinds.
  'do: rewind',
  'a bounded replay',
  'a record of a replay',
  'a replay is over',
  'another owner goes on in a replay',
  'a rewind is applied',
  'a rewind is superseded',
  'a rewind goes back',
  'a rewind goes forward',
  'a rewind stays where it is',
  'a record comes again to its member',
  'two rewinds of a partition at once',
  'a rewind of a group without owners',
  'a rewind while an owner stands still',
  'a rewind takes effect during a rebalance',
  'a rewind takes effect after its owner stood still',
  'a rewind takes effect after a restart of the broker',
  'a rewind takes effect before its owner read anything',
  'a new owner begins at a rewind',
  'a new owner finds a rewind that nobody has taken up',
  'a member joins during a rewind',
  'a partition is revoked with a rewind of it under way',
  'a partition is lost with a rewind of it under way',
  'an owner dies with a rewind under way',
  'the caller of a rewind dies',
  'the broker dies during a rewind',
  'a topic is deleted during a rewind',
  'a topic grows or comes during a rewind',
  'a position is outside the log',
  'a rewound position is outside the log',
  // Groups.
  'a partition comes back to its owner',
  'a partition goes to another member',
  'a late commit takes effect',
  'a late commit from before a rewind takes effect'
]

/** Those of `requiredMarks` that were not hit. */
export function missedMarks(hit: ReadonlySet<string>): readonly string[] {
  return requiredMarks.filter(mark => !hit.has(mark))
}
