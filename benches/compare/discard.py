"""ClickHouse's HTTP interface without the inserts: they are read and forgotten, everything else goes to a real one."""

import http.client
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

CHUNK = 1 << 20
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"


def is_insert(target):
    query = parse_qs(urlsplit(target).query).get("query", [""])[0]
    return query.lstrip().upper().startswith("INSERT")


def exactly(reader, buffer):
    """Fills the buffer."""
    while buffer:
        count = reader.readinto(buffer)
        if not count:
            raise ConnectionError("the body is cut")
        buffer = buffer[count:]


def bodies(reader, headers, buffer):
    """The body in pieces, whichever way it is framed; each is gone with the next."""
    is_chunked = headers.get("transfer-encoding") == "chunked"
    length = 0 if is_chunked else int(headers.get("content-length", 0))
    while True:
        if is_chunked:
            length = int(reader.readline(), 16)
        is_last = length == 0
        while length:
            piece = buffer[: min(length, CHUNK)]
            exactly(reader, piece)
            length -= len(piece)
            yield piece
        if is_chunked:
            reader.readline()
        if is_last or not is_chunked:
            return


def ask(upstream, method, target, headers, body):
    """The answer of the real one, to be sent."""
    real = http.client.HTTPConnection(upstream)
    real.request(method, target, body, {name: it for name, it in headers.items() if name.startswith("x-")})
    answer = real.getresponse()
    text = answer.read()
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}", f"Content-Length: {len(text)}"]
    lines += [f"{name}: {it}" for name, it in answer.getheaders() if name.lower().startswith("x-clickhouse")]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + text


def serve(connection, upstream):
    buffer = memoryview(bytearray(CHUNK))
    with connection, connection.makefile("rb", buffering=CHUNK) as reader:
        while request := reader.readline():
            method, target, _ = request.decode().split(" ")
            headers = {}
            while (line := reader.readline().decode().strip()) != "":
                name, value = line.split(":", 1)
                headers[name.lower()] = value.strip()
            pieces = bodies(reader, headers, buffer)
            if is_insert(target):
                for _ in pieces:
                    pass
                connection.sendall(OK)
            else:
                body = b"".join(bytes(piece) for piece in pieces)
                connection.sendall(ask(upstream, method, target, headers, body))


def main():
    port, upstream = int(sys.argv[1]), sys.argv[2]
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, upstream), daemon=True).start()


main()
