/**
 * How keys and values become bytes and back. A serde is a plain object, so an application's own (Avro, Protobuf) is as
 * good as these. Null is Kafka's tombstone and never given to a serde: it stays null on both sides.
 */

export interface Serde<T> {
  /** Shown in errors: 'json'. */
  readonly name: string
  /** The value's bytes. What it throws rejects the send. */
  serialize(value: T): Uint8Array
  /** The bytes' value. They are only valid during the call. What it throws makes the record a poison record. */
  deserialize(bytes: Buffer): T
}

/** UTF-8 text. */
export const string: Serde<string> = {
  name: 'string',
  serialize: value => Buffer.from(value),
  deserialize: bytes => bytes.toString()
}

/** The bytes as they are. What is read is a slice of the network's buffer: copy what is kept for long. */
export const bytes: Serde<Buffer> = {
  name: 'bytes',
  serialize: value => value,
  deserialize: slice => slice
}

/** JSON in UTF-8. `T` is what the application says it is: nothing checks it. */
export function json<T = unknown>(): Serde<T> {
  return {
    name: 'json',
    serialize(value) {
      const text = JSON.stringify(value)
      if (text === undefined) throw new TypeError(`JSON has no ${typeof value}`)
      return Buffer.from(text)
    },
    deserialize: slice => JSON.parse(slice.toString()) as T
  }
}
