"""What SQLite makes of queries over finite events. Reads a case a line: the statement, its rows. Which window an
event is in, and which are late, is reckoned here a second time, in the plainest way. Writes the rows of each."""

import json
import math
import sqlite3
import sys

COLUMNS = ["t", "k", "b", "i", "d", "s", "j"]


def windows(case):
    """(start, end, number, row) of each event in each of its windows for which it is not late."""
    size, step, delay = case["size"], case["step"], case["delay"]
    newest = None
    for number, row in enumerate(case["rows"]):
        time = row[0]
        if time is None:
            continue
        first = time - time % step - size + step
        for start in range(first, time + 1, step):
            if newest is None or start + size > newest - delay:
                yield (start, start + size, number, *row)
        newest = time if newest is None else max(newest, time)


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


def text(value):
    """JSON as the text that events have."""
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


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
        if case["size"]:
            rows = list(windows(case))
        else:
            rows = [(None, None, number, *row) for number, row in enumerate(case["rows"])]
        rows = [(*row[:-1], text(row[-1])) for row in rows]
        marks = ", ".join("?" * (3 + len(COLUMNS)))
        base.executemany(f"INSERT INTO events VALUES ({marks})", rows)
        print(json.dumps(base.execute(case["sql"]).fetchall()))


main()
