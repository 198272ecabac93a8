"""DuckDB's rows of queries over finite events. Reads a case in each line: the statement and its events."""

import json
import sys

import duckdb

from windows import COLUMNS, rows

TYPES = ["BIGINT", "BIGINT", "BIGINT", "BIGINT", "VARCHAR", "BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "JSON"]


def main():
    base = duckdb.connect(config={"threads": 1})
    base.execute("SET default_null_order = 'nulls_first'")
    base.execute("SET error_on_division_by_zero = false")
    names = ["ws", "we", "n", *COLUMNS]
    columns = ", ".join(f"unnest(?)::{kind} AS {name}" for name, kind in zip(names, TYPES))
    for line in sys.stdin:
        case = json.loads(line)
        columns_of = [list(column) for column in zip(*rows(case))] or [[] for _ in names]
        base.execute(f"CREATE OR REPLACE TEMP TABLE events AS SELECT {columns}", columns_of)
        print(json.dumps(base.execute(case["sql"]).fetchall(), default=float))


main()
