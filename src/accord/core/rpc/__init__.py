"""JSON-RPC on lines, without I/O: bytes in, frames out; one bad line costs one reply and nothing else."""

from accord.core.rpc.frames import Answer, Broken, Call, Failure, Incoming, Notice, read_frames
from accord.core.rpc.lines import LineSplitter, TooLong
from accord.core.rpc.write import answer_line, call_line, error_line, notice_line

__all__ = [
    "Answer",
    "Broken",
    "Call",
    "Failure",
    "Incoming",
    "LineSplitter",
    "Notice",
    "TooLong",
    "answer_line",
    "call_line",
    "error_line",
    "notice_line",
    "read_frames",
]
