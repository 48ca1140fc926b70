/**
 * A password or token that cannot be shown by accident: in a log line, an error, JSON or `inspect` it is `***`.
 * Only `reveal()` gives it away, so that a search for that word lists every place that sees a secret.
 */
export class Secret {
  readonly #value: string

  constructor(value: string) {
    this.#value = value
  }

  /** The password or token itself. */
  reveal(): string {
    return this.#value
  }

  /** `text` with '***' in place of the secret: for words of a peer that was told it, and might repeat it. */
  hideIn(text: string): string {
    return this.#value === '' ? text : text.replaceAll(this.#value, '***')
  }

  /** '***'. */
  toString(): string {
    return '***'
  }

  /** '***'. */
  toJSON(): string {
    return '***'
  }

  /** What `util.inspect` and `console.log` print. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return '***'
  }
}
