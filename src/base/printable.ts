/**
 * Text that came from elsewhere (names, reasons, errors of a broker) may hold escape sequences that take over
 * a terminal, or line ends that forge a log line. Whatever is shown to a person goes through here.
 */

// C0, DEL, C1, line and paragraph separators, and the marks that turn the direction of writing.
const unprintable =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** `text` with every control character written as an escape: `\n`, `\x1b`, `\u202e`. One line. */
export function printable(text: string): string {
  return text.replace(unprintable, escape)
}

function escape(character: string): string {
  if (character === '\n') return '\\n'
  if (character === '\r') return '\\r'
  if (character === '\t') return '\\t'
  const hex = character.charCodeAt(0).toString(16)
  return hex.length <= 2 ? `\\x${hex.padStart(2, '0')}` : `\\u${hex.padStart(4, '0')}`
}

/** For messages: the first few of many, and how many more there are. A group may have ten thousand partitions. */
export function few(names: readonly string[], most = 5, between = ', '): string {
  const first = names.slice(0, most).join(between)
  return names.length > most ? `${first} and ${names.length - most} more` : first
}
