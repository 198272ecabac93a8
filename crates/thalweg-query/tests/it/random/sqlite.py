"""SQLite's rows of queries over finite events. Reads a case in each line: the statement and its events."""

import json
import math
import sqlite3
import sys

from windows import COLUMNS, rows


class First:
    best = min

    def __init__(self):
        self.values = {}

    def step(self, number, value):
        self.values[number] = value

    def finalize(self):
        return self.values[type(self).best(self.values)]


class Last(First):
    best = max


class Percentile:
    def __init__(self):
        self.values = []
        self.share = 0.5

    def step(self, value, share=0.5):
        self.share = share
        if value is not None:
            self.values.append(value)

    def finalize(self):
        if not self.values:
            return None
        values, place = sorted(self.values), self.share * (len(self.values) - 1)
        low, high = values[math.floor(place)], values[math.ceil(place)]
        return float(low + (high - low) * (place - math.floor(place)))


def main():
    base = sqlite3.connect(":memory:")
    base.execute("PRAGMA case_sensitive_like = ON")
    base.create_aggregate("first", 2, First)
    base.create_aggregate("last", 2, Last)
    base.create_aggregate("median", 1, Percentile)
    base.create_aggregate("approx_percentile", 2, Percentile)
    columns = ", ".join(["ws", "we", "n", *COLUMNS])
    base.execute(f"CREATE TABLE events ({columns})")
    for line in sys.stdin:
        case = json.loads(line)
        base.execute("DELETE FROM events")
        marks = ", ".join("?" * (3 + len(COLUMNS)))
        base.executemany(f"INSERT INTO events VALUES ({marks})", rows(case))
        print(json.dumps(base.execute(case["sql"]).fetchall()))


main()
