"""Makes the streams beside it with another implementation of Arrow: pip install pyarrow, then run it here."""

import json

import pyarrow as pa

KEYS = pa.dictionary(pa.int32(), pa.utf8())
CARS = pa.schema(
    [
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("car", KEYS),
        pa.field("speed", pa.float64()),
        pa.field("locked", pa.bool_()),
        pa.field("total", pa.int64()),
        pa.field("time", pa.timestamp("ms", "UTC")),
        pa.field("place", KEYS),
        pa.field("more", pa.utf8(), metadata={"thalweg.type": "json"}),
    ],
    metadata={"thalweg.topic": "cars", "thalweg.epoch": "e1"},
)
FIGURES = pa.schema(
    [pa.field("_offset", pa.int64(), nullable=False), pa.field("mean", pa.float64())],
    metadata={"thalweg.topic": "cars", "thalweg.epoch": "e1"},
)
T = 1_700_000_000_000
# Behind what 32 bits can count.
FIRST = 2**33
ROWS = [
    [
        ("c1", 12.5, True, 1, T, "Köln", '{"a":[1,2]}'),
        ("c2", -0.5, False, -2, T + 1, "Bonn", "null"),
        ("c1", None, None, None, None, None, None),
    ],
    # Another dictionary: what was number 0 is another text.
    [("c9", 1e300, True, 2**53 - 1, -1, "東京", '"ü"'), ("c1", 0.0, False, -(2**53) + 1, 0, "Köln", "[]")],
    # No texts at all.
    [(None, float(n), n % 3 == 0, n, T + n, None, None) for n in range(20)],
]


def column(kind, values):
    if kind == KEYS:
        return pa.array(values, pa.utf8()).dictionary_encode()
    return pa.array(values, kind)


def frame(schema, first, rows):
    cells = [[first + n for n in range(len(rows))], *([row[n] for row in rows] for n in range(len(schema) - 1))]
    columns = [column(field.type, values) for field, values in zip(schema, cells)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def empty(schema, like=None):
    """Without rows, and so that no dictionary is written again."""
    return like.slice(0, 0) if like else frame(schema, 0, [])


def write(name, schema, batches):
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as writer:
        for batch, metadata in batches:
            writer.write_batch(batch, custom_metadata=metadata)
    with open(f"{name}.arrows", "wb") as file:
        file.write(out.getvalue())


def say(schema, batch):
    whole = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return {name: column.to_pylist() for name, column in zip(schema.names, whole)}


first = FIRST
frames = []
for rows in ROWS:
    frames.append(frame(CARS, first, rows))
    first += len(rows)
close = json.dumps({"code": 1012, "reason": "draining", "reconnect": True})
write(
    "cars",
    CARS,
    [
        (empty(CARS), None),
        (frames[0], None),
        (empty(CARS, frames[0]), None),
        (frames[1], None),
        (frames[2], None),
        (empty(CARS, frames[2]), {"thalweg.close": close}),
    ],
)
figures = frame(FIGURES, first, [(1.5,), (None,), (2.5,)])
write("figures", FIGURES, [(empty(FIGURES), None), (figures, None)])
with open("tables.json", "w", encoding="utf-8") as file:
    tables = {"cars": [say(CARS, it) for it in frames], "figures": [say(FIGURES, figures)]}
    json.dump(tables, file, ensure_ascii=False, indent=1)
    file.write("\n")
