#!/usr/bin/env python3
"""Tables of what run.py measured, put between the markers of docs/performance.md: medians of the rounds, and their
spread."""

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/performance.md"


def middle(values, digits):
    """Median, with the least and the most behind it."""
    low, high = min(values), max(values)
    shown = f"{statistics.median(values):.{digits}f}"
    return shown if low == high else f"{shown} ({low:.{digits}f} to {high:.{digits}f})"


def table(runs):
    """A line for each collector, protocol and pace."""
    lines = [
        "| protocol | datagrams/s | collector | flows/s | lost, % | lost in the kernel, datagrams | CPU s per million flows "
        "| user | system | peak MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = defaultdict(list)
    for it in runs:
        groups[it["protocol"], it["pps"], it["collector"]].append(it)
    for (protocol, pps, collector), rounds in groups.items():
        of = lambda name: [it[name] for it in rounds]
        cpu = [user + system for user, system in zip(of("cpu_user"), of("cpu_system"))]
        lost = [100 * lost / flows for lost, flows in zip(of("lost"), of("flows"))]
        cells = [
            protocol,
            f"{pps:,}" if pps else "all that goes",
            collector,
            f"{statistics.median(of('flows_per_second')):,.0f}",
            middle(lost, 2) if any(lost) else "0",
            middle(of("kernel_dropped_datagrams"), 0),
            middle(cpu, 3),
            f"{statistics.median(of('cpu_user')):.3f}",
            f"{statistics.median(of('cpu_system')):.3f}",
            f"{statistics.median(of('memory_mib')):.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def limits(runs):
    """The highest pace at which no round lost a flow."""
    lines = ["| protocol | collector | flows/s without loss | CPU s per million flows there |", "|---|---|---|---|"]
    groups = defaultdict(lambda: defaultdict(list))
    for it in runs:
        groups[it["protocol"], it["collector"]][it["pps"]].append(it)
    for (protocol, collector), paces in groups.items():
        clean = [rounds for rounds in paces.values() if not any(it["lost"] for it in rounds)]
        flows = lambda rounds: statistics.median(it["flows_per_second"] for it in rounds)
        if not clean:
            lines.append(f"| {protocol} | {collector} | none of these | |")
            continue
        best = max(clean, key=flows)
        cpu = [it["cpu_user"] + it["cpu_system"] for it in best]
        lines.append(f"| {protocol} | {collector} | {flows(best):,.0f} | {middle(cpu, 3)} |")
    return "\n".join(lines)


SECTIONS = {"table": table, "limits": limits}


def main():
    """report.py SECTION MARKER RUNS: what is between `<!-- MARKER -->` and `<!-- end -->` is replaced."""
    section, marker, path = sys.argv[1:]
    runs = [json.loads(line) for line in Path(path).read_text().splitlines()]
    text = SECTIONS[section](runs)
    document = DOCUMENT.read_text()
    pattern = rf"(<!-- {marker} -->\n).*?(<!-- end -->)"
    new, count = re.subn(pattern, lambda it: it[1] + text + "\n" + it[2], document, flags=re.S)
    if count != 1:
        raise SystemExit(f"{DOCUMENT} has no <!-- {marker} -->")
    DOCUMENT.write_text(new)
    print(text)


main()
