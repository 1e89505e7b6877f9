"""The collectors that are compared: each starts, says when it listens, what it counted, and ends."""

import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import processes

PORT = 29055
MANAGEMENT = "127.0.0.1:29080"
DISCARD = "127.0.0.1:29123"
BUFFER = 33554432


class Collector:
    """A process that listens at PORT; what a subclass does not say is the same for all."""

    def __init__(self, work, protocol):
        self.work, self.protocol = work, protocol
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        with open(work / "log", "w") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not listen:\n{(work / 'log').read_text()}")
            time.sleep(0.05)

    def is_ready(self):
        return subprocess.run(["ss", "-Hlun", f"sport = :{PORT}"], capture_output=True).stdout != b""

    def settle(self):
        """Waits until everything that arrived is processed."""
        while processes.socket(PORT)[0]:
            time.sleep(0.02)
        time.sleep(0.5)

    def stop(self):
        pids = processes.tree(self.process.pid)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        # Plugins outlive their parent, to write what they have.
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.05)

    def after(self):
        """What is known when it has ended."""
        return {}


class Tidegate(Collector):
    extra = ""
    is_discarded = False
    clickhouse = None  # host:port of the real one

    def command(self):
        endpoint = DISCARD if self.is_discarded else self.clickhouse
        self.query("DROP DATABASE IF EXISTS bench SYNC")
        (self.work / "tidegate.toml").write_text(
            f'management.listen = "{MANAGEMENT}"\n[receivers.bench]\nlisten = "127.0.0.1:{PORT}"\n'
            f'[clickhouse]\nendpoint = "http://{endpoint}"\ndatabase = "bench"\n{self.extra}'
        )
        program = Path(__file__).parents[2] / "target/release/tidegate"
        return [program, "run", "-c", self.work / "tidegate.toml"]

    def query(self, sql):
        request = urllib.request.Request(f"http://{self.clickhouse}/", sql.encode())
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode().strip()

    def is_ready(self):
        try:
            urllib.request.urlopen(f"http://{MANAGEMENT}/readyz").close()
            return super().is_ready()
        except OSError:
            return False

    def metric(self, name):
        with urllib.request.urlopen(f"http://{MANAGEMENT}/metrics") as answer:
            text = answer.read().decode()
        return sum(float(it) for it in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.M))

    def settle(self):
        super().settle()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            ended = self.metric("tidegate_batch_stored_rows_total") + self.metric(
                "tidegate_batch_dropped_rows_total"
            )
            if ended == self.metric("tidegate_batch_received_rows_total"):
                return
            time.sleep(0.1)

    def counted(self):
        counts = {
            "flows": self.metric("tidegate_batch_stored_rows_total"),
            "queue_dropped": self.metric("tidegate_batch_dropped_rows_total"),
        }
        if not self.is_discarded:
            rows = float(self.query("SELECT count() FROM bench.flows"))
            assert rows == counts["flows"], f"ClickHouse has {rows} rows, tidegate says {counts}"
        return counts


class Discard(Tidegate):
    name, is_discarded = "tidegate, discarded", True
    extra = "schema.rollups = []\n"


class DiscardTables(Discard):
    name = "tidegate, all tables, discarded"

    def command(self):
        tables = self.work.parent / "tables"
        command = super().command()
        with open(self.work / "tidegate.toml", "a") as config:
            config.write((tables / "tables.toml").read_text())
        return command


class Stored(Tidegate):
    name = "tidegate, stored"


class StoredPlain(Tidegate):
    name, extra = "tidegate, stored, no rollups", "schema.rollups = []\n"


class Nfdump(Collector):
    name = "nfcapd"

    def command(self):
        program = "sfcapd" if self.protocol == "sflow" else "nfcapd"
        flows = self.work / "flows"
        flows.mkdir()
        return [program, "-w", flows, "-b", "127.0.0.1", "-p", str(PORT), "-t", "3600", "-B", str(BUFFER)]

    def counted(self):
        return {}

    def after(self):
        answer = subprocess.run(
            ["nfdump", "-I", "-R", self.work / "flows"], capture_output=True, text=True
        ).stdout
        return {"flows": float(re.search(r"^Flows: (\d+)", answer, re.M)[1])}


class Pmacct(Collector):
    name = "nfacctd"

    def command(self):
        kind = "sfacctd" if self.protocol == "sflow" else "nfacctd"
        (self.work / "conf").write_text(
            f"daemonize: false\n{kind}_ip: 127.0.0.1\n{kind}_port: {PORT}\n{kind}_pipe_size: {BUFFER}\n"
            "plugins: print[a]\nplugin_pipe_size: 134217728\nplugin_buffer_size: 1048576\n"
            "aggregate[a]: src_host, dst_host, src_port, dst_port, proto, flows\n"
            f"print_output[a]: csv\nprint_output_file[a]: {self.work}/flows.csv\n"
            "print_output_file_append[a]: true\nprint_cache_entries[a]: 131071\nprint_refresh_time[a]: 3600\n"
        )
        return [f"/usr/sbin/{kind}", "-f", self.work / "conf"]

    def counted(self):
        return {}

    def after(self):
        header, *lines = (self.work / "flows.csv").read_text().splitlines()
        column = header.split(",").index("FLOWS")
        # The header comes again with each purge of the cache.
        return {"flows": float(sum(int(it.split(",")[column]) for it in lines if it != header))}


ALL = {it.name: it for it in (Discard, DiscardTables, StoredPlain, Stored, Nfdump, Pmacct)}
