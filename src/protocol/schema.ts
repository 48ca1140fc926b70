/**
 * The language in which messages are declared. One literal per message; its types are inferred and its
 * codec (codec.ts) is compiled from it. The order of the literal is the order on the wire.
 *
 * Two types come from one declaration: what a caller may leave out is optional in `Written`, while a reader
 * gets every field, absent ones at their default, in `Read`.
 *
 * Offsets, times and sizes are numbers, checked to be safe integers (`int64`); int64s that are identities,
 * such as producer ids, are bigint (`opaque64`). A uuid is 22 characters of base64url, as Kafka prints it.
 */
import type { Bytes } from './writer.ts'

/** A scalar, by Kafka's name; `int64` is a number and checked to be safe, `opaque64` a bigint, `uuid` base64url. */
export type ScalarType =
  | 'bool'
  | 'int8'
  | 'int16'
  | 'uint16'
  | 'int32'
  | 'int64'
  | 'opaque64'
  | 'float64'
  | 'uuid'
  | 'string'
  | 'bytes'
  | 'records'

/** Value of a field that was not sent. */
export type Default = number | string | boolean | bigint | null

/** When a field is there, and what it may be. */
export interface FieldOptions {
  /** First version that has the field. Default: the message's first. */
  readonly since?: number
  /** Last version that has it. Default: the message's last. */
  readonly until?: number
  /** First version in which null is allowed. */
  readonly nullable?: number
  /** What a reader gets, and a writer may leave out. Default: zero, '', empty. */
  readonly default?: Default
  /** The field is a tagged one (KIP-482) with this tag; written only when it differs from the default. */
  readonly tag?: number
  /** In versions without the field, a value is dropped instead of refused. */
  readonly ignorable?: boolean
  /** False: keeps the encoding of before KIP-482 in all versions. Only the request header's client id does. */
  readonly flexible?: false
}

/** A declared field. `R`, `W` and `Optional` exist for the compiler only. */
export interface Field<R = unknown, W = unknown, Optional extends boolean = boolean>
  extends FieldOptions {
  /** What it is on the wire. */
  readonly type: ScalarType | 'array' | 'struct'
  /** An array's element. */
  readonly element?: Field
  /** A struct's fields. */
  readonly fields?: Fields
  /** For the compiler only: never there. */
  readonly '~types'?: { readonly read: R; readonly written: W; readonly optional: Optional }
}

/** Fields by name; their order is the order on the wire. */
export type Fields = { readonly [name: string]: Field }

type NullOf<O> = O extends { readonly nullable: number } ? null : never
type OptionalOf<O> = O extends
  | { readonly default: Default }
  | { readonly since: number }
  | { readonly until: number }
  | { readonly tag: number }
  ? true
  : false

type ReadOf<F> = F extends Field<infer R, unknown, boolean> ? R : never
type WrittenOf<F> = F extends Field<unknown, infer W, boolean> ? W : never
type OptionalNames<F extends Fields> = {
  [N in keyof F]: F[N] extends Field<unknown, unknown, true> ? N : never
}[keyof F]

/** What a reader gets: every field. */
export type Read<F extends Fields> = { readonly [N in keyof F]: ReadOf<F[N]> }
/** What a writer gives: fields with a default, or not in all versions, may be left out. */
export type Written<F extends Fields> = {
  readonly [N in Exclude<keyof F, OptionalNames<F>>]: WrittenOf<F[N]>
} & { readonly [N in OptionalNames<F>]?: WrittenOf<F[N]> | undefined }

const scalar =
  <R, W = R>(type: ScalarType) =>
  <const O extends FieldOptions = object>(
    options?: O
  ): Field<R | NullOf<O>, W | NullOf<O>, OptionalOf<O>> => ({ type, ...options })

export const bool = scalar<boolean>('bool')
export const int8 = scalar<number>('int8')
export const int16 = scalar<number>('int16')
export const uint16 = scalar<number>('uint16')
export const int32 = scalar<number>('int32')
/** An offset, time or size: a safe integer. */
export const int64 = scalar<number>('int64')
/** An identity: exact, not computed with. */
export const opaque64 = scalar<bigint>('opaque64')
export const float64 = scalar<number>('float64')
export const uuid = scalar<string>('uuid')
export const string = scalar<string>('string')
/** Bytes; what is read is a slice of its frame. */
export const bytes = scalar<Buffer, Bytes>('bytes')
/** Record batches, see records/; what is read is a slice of its frame. Null unless given. */
export const records = <const O extends FieldOptions = object>(
  options?: O
): Field<Buffer | null, Bytes | null, true> => ({ type: 'records', default: null, ...options })

/** A struct: declared by its fields. */
export interface StructField<F extends Fields, O extends FieldOptions>
  extends Field<Read<F> | NullOf<O>, Written<F> | NullOf<O>, OptionalOf<O>> {}

export function struct<const F extends Fields, const O extends FieldOptions = object>(
  fields: F,
  options?: O
): StructField<F, O> {
  return { type: 'struct', fields, ...options }
}

/** An array: declared by its element, or by the fields of its structs. */
export interface ArrayField<E extends Field | Fields, O extends FieldOptions>
  extends Field<
    readonly (E extends Field ? ReadOf<E> : E extends Fields ? Read<E> : never)[] | NullOf<O>,
    readonly (E extends Field ? WrittenOf<E> : E extends Fields ? Written<E> : never)[] | NullOf<O>,
    OptionalOf<O>
  > {}

/** An array of scalars, or of structs when given their fields. */
export function array<const E extends Field | Fields, const O extends FieldOptions = object>(
  element: E,
  options?: O
): ArrayField<E, O> {
  return { type: 'array', element: isField(element) ? element : struct(element), ...options }
}

function isField(element: Field | Fields): element is Field {
  return typeof element.type === 'string'
}

/** A message: the body of a request or response, a header, or something that travels inside one. */
export interface Message<F extends Fields = Fields> {
  /** Kafka's name for it. */
  readonly name: string
  /** First and last version. */
  readonly versions: readonly [first: number, last: number]
  /** First version with compact lengths and tagged fields (KIP-482); null: none has. */
  readonly flexible: number | null
  /** In the order of the wire. */
  readonly fields: F
}

export function message<const F extends Fields>(literal: Message<F>): Message<F> {
  return literal
}

/** Where a request belongs when its caller doesn't say. */
export type Route = 'any' | 'controller' | 'group' | 'transaction' | 'leader' | 'node'

/**
 * Which of a link's connections a request goes by: what may wait long at the broker must not stand before
 * anything else, as a broker answers one connection's requests in order.
 */
export type Lane = 'main' | 'fetch' | 'produce' | 'group' | 'wait'

/** An API of Kafka as it is declared: `Heartbeat`, `Fetch`, … of `playhead/protocol`. */
export interface Api<Req extends Fields = Fields, Res extends Fields = Fields> {
  /** Kafka's number for it. */
  readonly key: number
  /** Kafka's name for it. */
  readonly name: string
  /** The first and last version that Playhead speaks. */
  readonly versions: readonly [first: number, last: number]
  /** First version with compact encoding and tagged fields (KIP-482); null: none. */
  readonly flexible: number | null
  /** Who is asked when the caller does not say. */
  readonly to: Route
  /** Which connection it goes over when the caller does not say. */
  readonly lane: Lane
  /** What is asked. */
  readonly request: Message<Req>
  /** What is answered. */
  readonly response: Message<Res>
}

export interface ApiLiteral<Req extends Fields, Res extends Fields> {
  readonly key: number
  readonly name: string
  readonly versions: readonly [first: number, last: number]
  readonly flexible: number | null
  readonly to: Route
  /** Default 'main'. */
  readonly lane?: Lane
  readonly request: Req
  readonly response: Res
}

export function api<const Req extends Fields, const Res extends Fields>(
  literal: ApiLiteral<Req, Res>
): Api<Req, Res> {
  const { key, name, versions, flexible, to, lane = 'main' } = literal
  return {
    key,
    name,
    versions,
    flexible,
    to,
    lane,
    request: { name: `${name}Request`, versions, flexible, fields: literal.request },
    response: { name: `${name}Response`, versions, flexible, fields: literal.response }
  }
}

/** What a client gives to send an API's request. */
export type RequestOf<A> = A extends Api<infer Req, Fields> ? Written<Req> : never
/** What a client reads as the answer. */
export type ResponseOf<A> = A extends Api<Fields, infer Res> ? Read<Res> : never
/** What a broker reads as the request. */
export type RequestRead<A> = A extends Api<infer Req, Fields> ? Read<Req> : never
/** What a broker gives as the answer. */
export type ResponseWritten<A> = A extends Api<Fields, infer Res> ? Written<Res> : never
