"""The windows of events, and the columns. Which window an event is in, and which are late, is computed here a second
time, in the plainest way."""

import json

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


def text(value):
    """JSON as the text that events have."""
    return None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def rows(case):
    """The rows of a case, each with its window, if any, and its number."""
    if case["size"]:
        found = windows(case)
    else:
        found = ((None, None, number, *row) for number, row in enumerate(case["rows"]))
    return [(*row[:-1], text(row[-1])) for row in found]
