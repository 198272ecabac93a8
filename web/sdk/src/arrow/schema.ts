/** The schema of an Arrow stream, as a Thalweg server writes it: flat columns of seven types. Pure. */

import {
  bool,
  type DataType,
  dictionary,
  Endianness,
  type Field,
  type Schema as FlechetteSchema,
  float64,
  int64,
  nullType,
  TimeUnit,
  timestamp,
  utf8,
  Version,
} from "@uwdata/flechette";
import type { FlatTable } from "./flatbuffer.js";
import { metadata } from "./messages.js";

/** Numbers of the types of Arrow's `Schema.fbs`. */
const NULL = 1;
const INT = 2;
const FLOATING_POINT = 3;
const UTF8 = 5;
const BOOL = 6;
const TIMESTAMP = 10;
const DOUBLE = 2;

/** The columns of a stream. All tables of the stream have this schema. */
export interface Schema extends FlechetteSchema {
  /** A key that is equal for schemas with the same columns in the same order. */
  readonly key: string;
}

/** @throws TypeError if the type of a column is unknown; RangeError if the bytes cannot be read. */
export function schema(table: FlatTable): Schema {
  const fields = table.tables(1).map(field);
  if (fields[0]?.name !== "_offset") throw new TypeError("the first column is not _offset");
  const key = JSON.stringify(fields.map(({ name, type, metadata }) => [name, type.typeId, [...(metadata ?? [])]]));
  return { version: Version.V5, endianness: Endianness.Little, fields, metadata: metadata(table, 2), key };
}

function field(table: FlatTable): Field {
  const name = table.text(0);
  const type = table.table(3);
  const encoding = table.table(4);
  const known = type && plain(table.byte(2), type);
  const isUtf8 = table.byte(2) === UTF8;
  if (!known || (encoding && !(isUtf8 && isInt(encoding.table(1), 32)))) {
    throw new TypeError(`the type of column ${name} is unknown`);
  }
  return {
    name,
    type: encoding ? dictionary(known, undefined, false, encoding.long(0)) : known,
    nullable: table.byte(1) === 1,
    metadata: metadata(table, 6),
  };
}

function plain(number: number, type: FlatTable): DataType | null {
  switch (number) {
    case NULL:
      return nullType();
    case INT:
      return isInt(type, 64) ? int64() : null;
    case FLOATING_POINT:
      return type.short(0) === DOUBLE ? float64() : null;
    case TIMESTAMP:
      return type.short(0) === TimeUnit.MILLISECOND ? timestamp(TimeUnit.MILLISECOND, type.text(1) || null) : null;
    case BOOL:
      return bool();
    case UTF8:
      return utf8();
    default:
      return null;
  }
}

function isInt(type: FlatTable | null, bits: number): boolean {
  return type?.int(0) === bits && type.byte(1) === 1;
}
