"""An agent that is never the bottleneck: it answers with prepared bytes. The prompt is the number of updates."""

import sys

UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"some words of an answer"}}}}\n'
)
BIG = 1_000
MANY = UPDATE * BIG
RESULTS = {
    b"initialize": b'{"protocolVersion":1,"agentCapabilities":{"promptCapabilities":{}}}',
    b"session/new": b'{"sessionId":"s"}',
    b"session/prompt": b'{"stopReason":"end_turn"}',
}


def after(line: bytes, name: bytes) -> bytes:
    """The value after this name, up to the next comma, quote or brace."""
    rest = line.partition(b'"' + name + b'": ')[2].lstrip(b'"')
    return rest[: min(rest.index(end) for end in (b",", b'"', b"}") if end in rest)]


def main() -> None:
    """Answer until the input ends."""
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    for line in sys.stdin.buffer:
        method = after(line, b"method")
        if method == b"session/prompt":
            times, rest = divmod(int(after(line, b"text")), BIG)
            for _ in range(times):
                write(MANY)
            write(UPDATE * rest)
        write(b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (after(line, b"id"), RESULTS[method]))
        flush()


if __name__ == "__main__":
    main()
