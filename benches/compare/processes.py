"""What /proc says of a process with its children, and of a UDP port."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid):
    """The process and all below it."""
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            pids += tree(int(child))
    return pids


def stat(path):
    """Name, and the fields behind it."""
    text = Path(path, "stat").read_text()
    return text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()


def cpu(pid):
    """Seconds in user mode and in the kernel, of the whole tree."""
    fields = [stat(f"/proc/{pid}")[1] for pid in tree(pid)]
    return [sum(int(it[number]) for it in fields) / TICKS for number in (11, 12)]


def cpu_of_threads(pid):
    """Seconds of each kind of thread, by its name without a number."""
    kinds = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, fields = stat(task)
        kind = name.rstrip("0123456789-")
        kinds[kind] = kinds.get(kind, 0) + (int(fields[11]) + int(fields[12])) / TICKS
    return kinds


def peak_memory(pid):
    """MiB that were resident at most, of the whole tree."""
    lines = [line for pid in tree(pid) for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def socket(port):
    """Bytes that wait at the port, and datagrams that the kernel dropped there."""
    waiting = dropped = 0
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rsplit(":", 1)[1], 16) == port:
                waiting += int(fields[4].split(":")[1], 16)
                dropped += int(fields[12])
    return waiting, dropped
