"""Exports made-up flows over TCP with python-ipfix: export_ipfix.py HOST PORT FLOWS."""

import socket
import sys
from datetime import datetime, timezone
from ipaddress import ip_address

import ipfix.ie
import ipfix.template
import ipfix.writer

NAMES = (
    "sourceIPv4Address",
    "destinationIPv6Address",
    "packetDeltaCount",
    "octetDeltaCount",
    "flowEndMilliseconds",
    "applicationName",
)

host, port, flows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ipfix.ie.use_iana_default()
now = datetime.now(timezone.utc).replace(tzinfo=None)
with socket.create_connection((host, port)) as connection:
    writer = ipfix.writer.to_stream(connection.makefile("wb"), mtu=9000)
    writer.set_domain(8304)
    writer.add_template(ipfix.template.from_ielist(256, ipfix.ie.spec_list(NAMES)))
    writer.set_export_template(256)
    for number in range(flows):
        source = ip_address("10.0.0.1") + number % 250
        name = "dns" if number % 2 else "web-proxy"
        values = (source, ip_address("2001:db8::1"), 1, number, now, name)
        writer.export_namedict(dict(zip(NAMES, values)))
    writer.flush()
