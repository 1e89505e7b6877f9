#!/usr/bin/env python3
"""Measures sort keys, codecs and indexes of `flows` in a real ClickHouse: bytes a row, CPU a row, and ten queries.

Figures go to a file of JSON lines as they come; `table.py` makes tables of it. Why what is chosen:
docs/decisions/0004-sort-key-codecs.md. Wall times are of use on an idle machine only.
"""

import argparse
import bisect
import json
import math
import pathlib
import re
import shutil
import statistics
import time

from candidates import CANDIDATES
from server import Server

HERE = pathlib.Path(__file__).parent
BATCH_ROWS = 50_000
# 1 November 2026.
FIRST_DAY = 1_793_491_200
DAY_SECONDS = 86_400
RUNS = 5


def columns():
    """Name and type of each column, from the document that is generated from the code."""
    text = (HERE / "../../docs/columns.md").read_text()
    return dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", text, re.M))


def rows_sql():
    """The rows of rows.sql with every column of the table, those that it does not make at their default."""
    rows = (HERE / "rows.sql").read_text()
    made = set(re.findall(r" AS (\w+)", rows.split("\nSELECT\n")[1]))
    fields = []
    for name, kind in columns().items():
        quoted = kind.replace("'", "\\'")
        value = f"CAST({name}, '{quoted}')" if name in made else f"defaultValueOfTypeName('{quoted}')"
        fields.append(f"{value} AS `{name}`")
    return f"SELECT {', '.join(fields)} FROM ({rows})"


def second_of_day(share, hours):
    """When this share of a day's flows has been sent; at 20:00 there are four times as many as at 08:00."""
    sums = [0]
    for hour in range(*hours):
        sums.append(sums[-1] + 1 + 0.6 * math.cos((hour - 20) * math.pi / 12))
    wanted = share * sums[-1]
    hour = min(bisect.bisect_right(sums, wanted), len(sums) - 1) - 1
    return 3600 * (hours[0] + hour + (wanted - sums[hour]) / (sums[hour + 1] - sums[hour]))


def make_batches(server, directory, arguments):
    directory.mkdir(parents=True, exist_ok=True)
    sql = rows_sql()
    batches = []
    for number in range(arguments.days * arguments.batches_a_day):
        file = directory / f"{number:05}.native"
        batches.append(file)
        if file.exists():
            continue
        day, batch = divmod(number, arguments.batches_a_day)
        begin, end = (
            FIRST_DAY + day * DAY_SECONDS + second_of_day(part / arguments.batches_a_day, arguments.hours)
            for part in (batch, batch + 1)
        )
        rows = {"first": number * BATCH_ROWS, "rows": BATCH_ROWS, "begin": begin, "end": end}
        new = file.with_suffix(".new")
        new.write_bytes(server.make(sql, **rows))
        new.rename(file)
    return batches


def sizes(server, table):
    where = f"database = 'default' AND table = '{table}' AND active"
    bytes_on_disk, rows, parts = server.rows(f"SELECT sum(bytes_on_disk), sum(rows), count() FROM system.parts WHERE {where}")[0]
    return {"bytes_row": int(bytes_on_disk) / int(rows), "parts": int(parts), "rows": int(rows)}


def column_sizes(server, table, rows):
    """Bytes a row of each column; parts with all columns in one file say nothing of them."""
    sql = f"SELECT name, data_compressed_bytes FROM system.columns WHERE database = 'default' AND table = '{table}' ORDER BY 2 DESC"
    return {name: int(size) / rows for name, size in server.rows(sql)}


def insert(server, name, table, batches):
    """Inserts all batches and waits for the merges."""
    server.send(f"DROP TABLE IF EXISTS {table} SYNC")
    server.send(CANDIDATES[name].create(table, columns()))
    server.wait_for_merges()
    start, began = server.cpu(), time.monotonic()
    for number, batch in enumerate(batches):
        server.insert(table, batch.read_bytes(), f"{table}-{number}")
    inserted = server.cpu()
    server.wait_for_merges()
    merged, wall = server.cpu(), time.monotonic() - began
    state = sizes(server, table)
    millions = state["rows"] / 1e6
    # Merges run beside the inserts too, so only the sum of the two is a figure of its own.
    return {"cpu": (merged - start) / millions, "cpu_inserting": (inserted - start) / millions, "wall": wall, **state}


def finish(server, table):
    """Makes one part of each day."""
    start = server.cpu()
    for (day,) in server.rows(f"SELECT DISTINCT partition_id FROM system.parts WHERE table = '{table}' AND active"):
        server.send(f"OPTIMIZE TABLE {table} PARTITION ID '{day}' FINAL")
    state = sizes(server, table)
    cpu = (server.cpu() - start) * 1e6 / state["rows"]
    return {"cpu": cpu, **state, "columns": column_sizes(server, table, state["rows"])}


def queries(server, table, arguments):
    """Name and text of each query, with an exporter, an interface and hosts of the middle ranks."""
    last = FIRST_DAY + (arguments.days - 1) * DAY_SECONDS
    conditions = {
        "DAY": f"timestamp >= toDateTime({last}, 'UTC') AND timestamp < toDateTime({last + DAY_SECONDS}, 'UTC')",
        "HOUR": f"timestamp >= toDateTime({last + 20 * 3600}, 'UTC') AND timestamp < toDateTime({last + 21 * 3600}, 'UTC')",
    }
    busy = f"SELECT exporterAddr FROM {table} GROUP BY 1 ORDER BY count() DESC, 1 LIMIT 9, 1"
    exporter = server.rows(busy)[0][0]
    busy = f"SELECT inputSnmp FROM {table} WHERE exporterAddr = '{exporter}' GROUP BY 1 ORDER BY count() DESC, 1 LIMIT 2, 1"
    interface = server.rows(busy)[0][0]
    busy = f"SELECT srcAddr, dstAddr FROM {table} WHERE srcAs = 64512 GROUP BY 1, 2 ORDER BY count() DESC, 1, 2 LIMIT 300, 1"
    host, peer = server.rows(busy)[0]
    text = (HERE / "queries.sql").read_text()
    for name, sql in re.findall(r"^-- ([\w-]+): .*\n((?:[A-Z(].*\n?)+)", text, re.M):
        for word, condition in conditions.items():
            sql = re.sub(rf"\b{word}\b", condition, sql)
        yield name, sql.format(exporter=exporter, interface=interface, host=host, peer=peer)


def ask(server, tables, arguments, record, state):
    """Every query of every table, one table after another in each run, so that a busy minute hits all."""
    for query, sql in list(queries(server, next(iter(tables.values())), arguments)):
        runs = {name: [] for name in tables}
        for run in range(RUNS + 1):
            for name, table in tables.items():
                figures = server.measure(sql.replace("FROM flows", f"FROM {table}"))
                if run > 0:
                    runs[name].append(figures)
        for name, figures in runs.items():
            cpu, wall, rows, size = zip(*figures)
            record(
                name,
                "query",
                state=state,
                query=query,
                cpu=statistics.median(cpu),
                cpu_spread=[min(cpu), max(cpu)],
                wall=statistics.median(wall),
                rows=rows[0],
                bytes=size[0],
            )


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default="target/bench-schema", type=pathlib.Path, help="batches, tables and figures")
    parser.add_argument("--program", default="target/release/tidegate")
    parser.add_argument("--days", default=3, type=int)
    parser.add_argument("--batches-a-day", default=134, type=int, help="of 50,000 rows")
    parser.add_argument("--hours", default="0-24", help="send the flows of a day within these hours")
    parser.add_argument("--candidates", default=",".join(CANDIDATES))
    parser.add_argument("--inserts", default=1, type=int, help="times that all candidates are filled in turn")
    parser.add_argument("--label", default="", help="said with each figure")
    parser.add_argument("--keep", action="store_true", help="keep the tables for the next run of queries")
    arguments = parser.parse_args()
    arguments.hours = tuple(int(hour) for hour in arguments.hours.split("-"))
    return arguments


def main():
    arguments = parse()
    names = arguments.candidates.split(",")
    directory = arguments.directory
    server = Server(arguments.program, str(directory / "clickhouse"))
    shape = f"{arguments.days}-{arguments.batches_a_day}-{arguments.hours[0]}-{arguments.hours[1]}"

    def record(name, what, **figures):
        line = {"candidate": name, "what": what, "shape": shape, "label": arguments.label, **figures}
        with open(directory / "figures.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps({key: value for key, value in line.items() if key != "columns"}), flush=True)

    batches = make_batches(server, directory / f"batches-{shape}", arguments)
    tables = {name: name.replace("-", "_") for name in names}
    for _ in range(arguments.inserts):
        for name, table in tables.items():
            record(name, "insert", **insert(server, name, table, batches))
    ask(server, tables, arguments, record, "merged")
    for name, table in tables.items():
        record(name, "final", **finish(server, table))
    ask(server, tables, arguments, record, "final")
    for table in tables.values() if not arguments.keep else ():
        server.send(f"DROP TABLE {table} SYNC")
    server.stop()
    if not arguments.keep:
        shutil.rmtree(directory / "clickhouse")


if __name__ == "__main__":
    main()
