"""Serves interfaces to snmpd by pass_persist: ROOT COUNT [COLUMN=TEMPLATE:TYPE ...], in the order of the columns."""

import sys

root, count = sys.argv[1], int(sys.argv[2])
columns = {}
for argument in sys.argv[3:]:
    column, rest = argument.split("=", 1)
    template, kind = rest.rsplit(":", 1)
    columns[int(column)] = (template, kind)
order = sorted(columns)
prefix = [int(arc) for arc in root.strip(".").split(".")]


def show(column, index):
    template, kind = columns[column]
    print(f"{root}.1.{column}.{index}", kind, template.replace("%", str(index)), sep="\n", flush=True)


def follow(arcs):
    """The row behind an object identifier, as (column, index)."""
    below = arcs[len(prefix) + 1 :] if arcs[: len(prefix) + 1] == prefix + [1] else []
    column = below[0] if below else 0
    index = below[1] if len(below) > 1 else 0
    if column in columns and index < count:
        return column, index + 1
    later = [it for it in order if it > column]
    return (later[0], 1) if later else None


while line := sys.stdin.readline().strip():
    if line == "PING":
        print("PONG", flush=True)
        continue
    arcs = [int(arc) for arc in sys.stdin.readline().strip().strip(".").split(".")]
    if line == "getnext":
        row = follow(arcs)
    else:
        row = tuple(arcs[-2:]) if arcs[-2] in columns and 1 <= arcs[-1] <= count else None
    if row:
        show(*row)
    else:
        print("NONE", flush=True)
