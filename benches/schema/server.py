"""ClickHouse as `tidegate clickhouse run` brings it along, over HTTP, and the CPU time that it uses."""

import http.client
import json
import subprocess
import time
import urllib.parse

# The same settings as src/clickhouse/insert.rs: a batch is one block.
ONE_BLOCK = {
    "async_insert": 0,
    "max_insert_block_size": 1 << 40,
    "min_insert_block_size_rows": 1 << 40,
    "min_insert_block_size_bytes": 1 << 50,
    "max_insert_block_size_bytes": 0,
    "use_strict_insert_block_limits": 0,
    "max_insert_threads": 1,
    "input_format_parallel_parsing": 0,
    "decompress": 1,
}

# The server remembers which granules a condition left out; a repeated query would look free.
QUERY = {"use_query_condition_cache": 0, "max_threads": 2}



class Server:
    def __init__(self, program, path):
        arguments = [program, "clickhouse", "run", "--path", path, "--http-port", "0", "--tcp-port", "0", "--stop-on-stdin-eof"]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = dict(word.split("=", 1) for word in self.process.stdout.readline().split() if "=" in word)
        self.version = ready["version"]
        # The server is a thread of this process. The clock of a process counts nanoseconds, /proc ticks of 10 ms.
        self.clock = ((~int(ready["pid"])) << 3) | 2
        host, port = ready["http"].rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=3600)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def cpu(self):
        """Seconds of CPU that the server has used until now, merges and all."""
        return time.clock_gettime(self.clock)

    def send(self, sql, body=None, **settings):
        """The body and the summary of the answer."""
        if body is None:
            body = sql.encode()
        else:
            settings["query"] = sql
        self.connection.request("POST", "/?" + urllib.parse.urlencode(settings), body)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode(errors="replace")[:2000])
        return content, json.loads(answer.headers.get("X-ClickHouse-Summary") or "{}")

    def rows(self, sql, **settings):
        text = self.send(sql + " FORMAT TSVRaw", **settings)[0].decode()
        return [line.split("\t") for line in text.splitlines()]

    def make(self, sql, **parameters):
        """The answer in Native, compressed as an insert takes it."""
        named = {"param_" + name: value for name, value in parameters.items()}
        return self.send(sql + " FORMAT Native", **named, compress=1, max_block_size=65536)[0]

    def insert(self, table, batch, token):
        self.send(f"INSERT INTO {table} FORMAT Native", batch, **ONE_BLOCK, insert_deduplication_token=token)

    def wait_for_merges(self):
        """Until none has run for three seconds."""
        quiet = 0
        while quiet < 6:
            busy = int(self.rows("SELECT count() FROM system.merges")[0][0])
            quiet = 0 if busy else quiet + 1
            time.sleep(0.5)

    def measure(self, sql):
        """CPU milliseconds, wall milliseconds, rows and bytes (uncompressed) read of a query."""
        before, began = self.cpu(), time.monotonic()
        summary = self.send(sql + " FORMAT Null", **QUERY)[1]
        wall, cpu = time.monotonic() - began, self.cpu() - before
        return 1000 * cpu, 1000 * wall, int(summary["read_rows"]), int(summary["read_bytes"])
