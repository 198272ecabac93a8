#!/usr/bin/env python3
"""CPU of the swarm for an event, of two builds of the lab in turns: the same scenario, whose cells have fixed rates.
usage: pairs.py BEFORE AFTER PAIRS FOLDER"""
import json, math, os, statistics as st, subprocess, sys
before, after, pairs, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
here = os.path.dirname(os.path.abspath(__file__))
os.makedirs(folder + '/none', exist_ok=True)

def run(binary, out):
    command = [binary, 'bench', here + '/scenario.toml', '--peers', folder + '/none', '--out', out]
    done = subprocess.run(command, capture_output=True, text=True)
    if not os.path.exists(out + '/samples.jsonl'):
        sys.exit(done.stdout + done.stderr)
    per = {}
    for line in open(out + '/samples.jsonl'):
        d = json.loads(line)
        c = d.get('settings') or d['cell']
        per[json.dumps(c)] = d['swarm_busy'] * d['span_us'] / d['traffic']['events']
    return per

def quantile(p, df):
    """Student's t by bisection on its distribution (Simpson)."""
    def cdf(x):
        n = 2000
        h = x / n
        k = math.gamma((df + 1) / 2) / (math.sqrt(df * math.pi) * math.gamma(df / 2))
        f = lambda t: k * (1 + t * t / df) ** (-(df + 1) / 2)
        return 0.5 + h / 3 * (f(0) + f(x) + 4 * sum(f(h * i) for i in range(1, n, 2)) + 2 * sum(f(h * i) for i in range(2, n, 2)))
    lo, hi = 0, 50
    for _ in range(60):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if cdf(mid) < p else (lo, mid)
    return lo

def interval(v, alpha):
    m, h = st.mean(v), quantile(1 - alpha / 2, len(v) - 1) * st.stdev(v) / math.sqrt(len(v))
    return tuple(math.exp(x) for x in (m, m - h, m + h))

ratios = {}
for pair in range(pairs):
    order = [('before', before), ('after', after)]
    if pair % 2:
        order.reverse()
    got = {tag: run(binary, f'{folder}/{pair:02d}-{tag}') for tag, binary in order}
    for cell, cpu in got['after'].items():
        ratios.setdefault(cell, []).append(math.log(cpu / got['before'][cell]))
    print(pair, [round(math.exp(v[-1]), 3) for v in ratios.values()], flush=True)
print('CPU of the swarm for an event, after / before; in brackets 99.2 %, for six cells (Bonferroni)')
for cell, v in ratios.items():
    print('%-14s %.3f (%.3f-%.3f)' % ((cell,) + interval(v, 0.05 / len(ratios))))
print('%-14s %.3f (%.3f-%.3f), 95 %%' % (('pooled',) + interval([st.mean(x) for x in zip(*ratios.values())], 0.05)))
