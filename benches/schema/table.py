#!/usr/bin/env python3
"""Tables in Markdown of the figures that run.py left behind. table.py [--label LABEL] [DIRECTORY]"""

import argparse
import collections
import json
import pathlib
import statistics


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(field) for field in line) + " |" for line in lines) + "\n"


def spread(values):
    """The median, and the range when there are several."""
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f} to {max(values):.2f})"


def storage(lines):
    """Bytes and CPU of each candidate."""
    inserts, finals = collections.defaultdict(list), {}
    for line in lines:
        if line["what"] == "insert":
            inserts[line["candidate"]].append(line)
        if line["what"] == "final":
            finals[line["candidate"]] = line
    rows = []
    for name, figures in inserts.items():
        last, final = figures[-1], finals.get(name)
        rows.append([
            name, f"{last['bytes_row']:.1f}", last["parts"], f"{final['bytes_row']:.1f}" if final else "",
            spread([figure["cpu"] for figure in figures]), f"{final['cpu']:.2f}" if final else "",
        ])
    head = ["candidate", "bytes/row", "parts", "one part a day", "CPU s/million, inserts and merges", "to one part a day"]
    return markdown(head, rows)


def most_expensive(lines, count=12):
    """Bytes a row of the columns that cost most."""
    finals = {line["candidate"]: line["columns"] for line in lines if line["what"] == "final"}
    total = collections.Counter()
    for sizes in finals.values():
        total.update(sizes)
    names = [name for name, _ in total.most_common(count)]
    rows = [[f"`{name}`", *(f"{sizes.get(name, 0):.2f}" for sizes in finals.values())] for name in names]
    return markdown(["bytes/row of", *finals], rows)


def queries(lines, state):
    """CPU milliseconds (with the spread of the runs), rows and bytes read of each query."""
    found = collections.defaultdict(dict)
    for line in lines:
        if line["what"] == "query" and line["state"] == state:
            found[line["query"]][line["candidate"]] = line
    if not found:
        return "none\n"
    names = list(next(iter(found.values())))
    cpu, read, wide = [], [], []
    for query, figures in found.items():
        cpu.append([query, *(f"{figures[name]['cpu']:.0f}" for name in names)])
        read.append([query, *(f"{figures[name]['rows'] / 1e3:,.0f}" for name in names)])
        wide.append([query, *(f"{figures[name]['bytes'] / 1e6:,.1f}" for name in names)])
    total = [sum(figures[name]["cpu"] for figures in found.values()) for name in names]
    cpu.append(["sum", *(f"{value:.0f}" for value in total)])
    ratios = [line["cpu_spread"][1] / line["cpu"] for figures in found.values() for line in figures.values()]
    note = f"Slowest run by the median: {statistics.median(ratios):.2f} in the middle, {max(ratios):.2f} at worst.\n"
    return "\n".join([
        markdown(["CPU ms", *names], cpu), note,
        markdown(["thousand rows read", *names], read), markdown(["MB read, uncompressed", *names], wide),
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--label")
    parser.add_argument("directory", nargs="?", default="target/bench-schema", type=pathlib.Path)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in (arguments.directory / "figures.jsonl").read_text().splitlines()]
    shapes = dict.fromkeys((line["shape"], line["label"]) for line in lines)
    for shape, label in shapes:
        if arguments.label not in (None, label):
            continue
        chosen = [line for line in lines if (line["shape"], line["label"]) == (shape, label)]
        print(f"## {label} {shape}\n\n{storage(chosen)}\n{most_expensive(chosen)}")
        for state in ("merged", "final"):
            print(f"### Queries, {state}\n\n{queries(chosen, state)}")


if __name__ == "__main__":
    main()
