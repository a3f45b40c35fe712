"""A fake model on loopback for `accord inspect --mock-llm`: agents call it in place of a model API, without a key.

It shows what an agent sends to its model for a prompt, and the prompt scripts what it replies (`script.py`).
`server` is not imported here: an inspection without --mock-llm does without its library.
"""

from accord.acp_tools.inspect.fake_model.content_fate import Fate, FateKind, ProbeContent, find_content
from accord.acp_tools.inspect.fake_model.received_request import (
    AnswerState,
    MalformedRequest,
    ReceivedRequest,
    explain_absence,
)

__all__ = [
    "AnswerState",
    "Fate",
    "FateKind",
    "MalformedRequest",
    "ProbeContent",
    "ReceivedRequest",
    "explain_absence",
    "find_content",
]
