#!/usr/bin/env python3
"""Instructions of each stage for a flow, counted by callgrind, beside those that are committed: times are noisy, these are
not. More than 5 % away is an error; `--update` takes the new ones."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "target/release/examples/stages"
COMMITTED = ROOT / "benches/instructions.csv"
STAGES = ["decode netflow-v5", "decode netflow-v9", "decode ipfix", "decode sflow", "enrich", "encode", "encode lz4"]
TOLERANCE = 0.05
ROUNDS = 4

# Callgrind counts a `rep movsb` by its bytes, and whether glibc takes one depends on alignment.
STEADY = {
    "GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824"
}


def instructions(stage):
    """Of a flow, without what comes before the rounds."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=stages::counted"]
    run = subprocess.run(
        [*command, PROGRAM, stage, str(ROUNDS)], check=True, capture_output=True, text=True, env={**os.environ, **STEADY}
    )
    return int(re.search(r"Collected : (\d+)", run.stderr)[1]) / ROUNDS / int(run.stdout)


def compiler():
    return subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()


def main():
    now = {stage: round(instructions(stage)) for stage in STAGES}
    if "--update" in sys.argv:
        lines = [f"# {compiler()}", "stage,instructions"] + [f"{stage},{count}" for stage, count in now.items()]
        COMMITTED.write_text("\n".join(lines) + "\n")
        return
    first, _, *lines = COMMITTED.read_text().splitlines()
    if first != f"# {compiler()}":
        print(f"not compared: the committed figures are of {first[2:]}, this is {compiler()}; --update")
        return
    before = {stage: int(count) for stage, count in (line.split(",") for line in lines)}
    for stage in STAGES:
        print(f"{stage}: {now[stage]} instructions a flow, {now[stage] / before[stage] - 1:+.1%}")
    wrong = [stage for stage in STAGES if abs(now[stage] / before[stage] - 1) > TOLERANCE]
    if wrong:
        raise SystemExit(f"not within {TOLERANCE:.0%}: {', '.join(wrong)}; if that is meant: {sys.argv[0]} --update")


main()
