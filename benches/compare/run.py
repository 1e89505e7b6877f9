#!/usr/bin/env python3
"""Collectors side by side, on loopback: equal load for each in turn, round after round. A line of JSON for each run goes
to target/bench/runs.jsonl; report.py makes tables of them."""

import argparse
import json
import subprocess
import time
from pathlib import Path

import collectors
import processes

ROOT = Path(__file__).parents[2]
WORK = ROOT / "target/bench"
LOAD = ROOT / "target/release/examples/load"


def load(protocol, pps, seconds, exporters):
    command = [LOAD, "--to", f"127.0.0.1:{collectors.PORT}", "--protocol", protocol]
    command += ["--pps", str(pps), "--seconds", str(seconds), "--exporters", str(exporters)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def run(kind, protocol, pps, seconds, exporters):
    collector = kind(WORK / "work", protocol)
    try:
        warm_up(protocol, exporters)
        collector.settle()
        pid = collector.process.pid
        before = processes.cpu(pid)
        kinds_before = processes.cpu_of_threads(pid)
        dropped_before = processes.socket(collectors.PORT)[1]
        first = collector.counted()
        sent = load(protocol, pps, seconds, exporters)
        collector.settle()
        user, system = (now - then for now, then in zip(processes.cpu(pid), before))
        kinds = processes.cpu_of_threads(pid)
        threads = {name: kinds[name] - kinds_before.get(name, 0) for name in kinds}
        memory = processes.peak_memory(pid)
        dropped = processes.socket(collectors.PORT)[1] - dropped_before
        counts = {name: value - first[name] for name, value in collector.counted().items()}
    finally:
        collector.stop()
    if not counts:
        counts = collector.after()
        counts["flows"] -= WARM_UP["flows"]
    flows = sent["flows"]
    return {
        "collector": kind.name,
        "protocol": protocol,
        "pps": pps,
        "exporters": exporters,
        "sent_pps": round(sent["datagrams"] / sent["seconds"]),
        "flows_per_second": round(flows / sent["seconds"]),
        "flows": flows,
        "lost": flows - counts["flows"],
        "queue_dropped": counts.get("queue_dropped", 0),
        "kernel_dropped_datagrams": dropped,
        "cpu_user": user / flows * 1e6,
        "cpu_system": system / flows * 1e6,
        "cpu_threads": {name: value / flows * 1e6 for name, value in threads.items()},
        "memory_mib": memory,
    }


WARM_UP = {}


def warm_up(protocol, exporters):
    """Templates and pages are there before anything is measured."""
    WARM_UP.update(load(protocol, 2_000, 0.5, exporters))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--pps", default="20000", help="datagrams a second, several with commas; 0 is all that goes")
    parser.add_argument("--exporters", default="10", help="several with commas")
    parser.add_argument("--protocols", default="v5,v9,ipfix,sflow")
    parser.add_argument("--collectors", default="", help="parts of names, with commas; all without")
    parser.add_argument("--out", type=Path, default=WORK / "runs.jsonl")
    return parser.parse_args()


def clickhouse():
    """The real one, and the address of its HTTP interface."""
    program = ROOT / "target/release/tidegate"
    subprocess.run([program, "clickhouse", "install"], check=True)
    command = [program, "clickhouse", "run", "--path", WORK / "clickhouse", "--http-port", "0", "--tcp-port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        for word in line.split():
            if word.startswith("http="):
                return server, word.removeprefix("http=")
    raise SystemExit("ClickHouse did not start")


def main():
    options = arguments()
    wanted = [it for it in options.collectors.split(",") if it]
    kinds = [kind for name, kind in collectors.ALL.items() if not wanted or any(it in name for it in wanted)]
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run([ROOT / "target/release/examples/tables", WORK / "tables"], check=True)
    options.out.unlink(missing_ok=True)
    server, address = clickhouse()
    collectors.Tidegate.clickhouse = address
    sink = subprocess.Popen(["python3", Path(__file__).parent / "discard.py", collectors.DISCARD.split(":")[1], address])
    try:
        for number in range(options.rounds):
            for protocol in options.protocols.split(","):
                for pps in options.pps.split(","):
                    for exporters in options.exporters.split(","):
                        for kind in kinds:
                            result = run(kind, protocol, int(pps), options.seconds, int(exporters))
                            with open(options.out, "a") as out:
                                out.write(json.dumps({"round": number, **result}) + "\n")
                            print(
                                f"{number} {kind.name}, {protocol}: {result['flows_per_second']} flows/s, "
                                f"lost {result['lost']:.0f}, CPU {result['cpu_user'] + result['cpu_system']:.3f} s/M, "
                                f"{result['memory_mib']:.0f} MiB, {result['cpu_threads']}",
                                flush=True,
                            )
                            time.sleep(0.2)
    finally:
        sink.terminate()
        server.terminate()
        server.wait()


main()
