"""What Autobahn found, by section; fails if a case failed.

Usage: summary.py INDEX INDEX_WITHOUT_PATHS SUMMARY
"""
from __future__ import print_function

import json
import sys

SECTIONS = {
    1: "framing",
    2: "pings and pongs",
    3: "reserved bits",
    4: "opcodes",
    5: "fragments",
    6: "UTF-8",
    7: "closes",
    9: "large messages, many messages",
    10: "automatic fragmentation",
    12: "compression",
    13: "compression, other offers",
}
VERDICTS = ["OK", "NON-STRICT", "INFORMATIONAL", "FAILED", "other"]
# Verdicts on a case's behaviour, and on its close.
ASPECTS = ["behavior", "behaviorClose"]
# Their only offer demands a window of 512 bytes, which the server declines (RFC 7692 section 7.1.2.1).
DECLINED = ["13.3.", "13.5."]


def number(case):
    return [int(part) for part in case.split(".")]


def verdict(case):
    """The worse of both: a case that failed to close has failed."""
    found = [case[aspect] for aspect in ASPECTS]
    for worse in ["FAILED", "WRONG CODE", "UNCLEAN", "FAILED BY CLIENT", "UNIMPLEMENTED"]:
        if worse in found:
            return "FAILED" if worse in ("FAILED", "WRONG CODE") else "other"
    return found[0] if found[0] in VERDICTS else "other"


def summary(cases):
    rows = {}
    for name, case in cases.items():
        row = rows.setdefault(number(name)[0], dict.fromkeys(VERDICTS, 0))
        row[verdict(case)] += 1
    line = "{:<34}" + "{:>15}" * len(VERDICTS)
    yield line.format("section", *VERDICTS)
    for section, row in sorted(rows.items()):
        name = "{} {}".format(section, SECTIONS.get(section, ""))
        yield line.format(name, *[row[found] for found in VERDICTS])
    total = [sum(row[found] for row in rows.values()) for found in VERDICTS]
    yield line.format("all {}".format(sum(total)), *total)
    yield ""
    yield "13.3.* and 13.5.* demand a window that the server declines: UNIMPLEMENTED is right."
    for name in sorted(cases, key=number):
        found = verdict(cases[name])
        if found != "OK":
            said = ", ".join(str(cases[name][aspect]) for aspect in ASPECTS)
            yield "{}: {} ({})".format(name, found, said)


def fails(name, case):
    found = verdict(case)
    is_declined = case["behavior"] == "UNIMPLEMENTED" and name.startswith(tuple(DECLINED))
    return found == "FAILED" or found == "other" and not is_declined


def main():
    index, stripped, out = sys.argv[1:]
    with open(index) as read:
        agents = json.load(read)
    for cases in agents.values():
        for case in cases.values():
            # A file of this machine.
            case.pop("reportfile", None)
    with open(stripped, "w") as write:
        json.dump(agents, write, indent=1, sort_keys=True, separators=(",", ": "))
        write.write("\n")
    (cases,) = agents.values()
    text = "\n".join(line.rstrip() for line in summary(cases)) + "\n"
    with open(out, "w") as write:
        write.write(text)
    print(text, end="")
    failed = [name for name in cases if fails(name, cases[name])]
    if failed or not cases:
        sys.exit("Autobahn: {} cases failed".format(len(failed)))


main()
