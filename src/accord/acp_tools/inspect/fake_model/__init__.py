"""A fake model on loopback for `accord inspect --mock-llm`: agents call it in place of a model API, without a key.

It shows what an agent sends to its model for a prompt, and the prompt scripts what it replies (`script.py`).
"""

from accord.acp_tools.inspect.fake_model.content_fate import Fate, FateKind, ProbeContent, find_content
from accord.acp_tools.inspect.fake_model.model_request import AnswerState, ReceivedRequest
from accord.acp_tools.inspect.fake_model.server import FakeModel, MissingTool

__all__ = [
    "AnswerState",
    "FakeModel",
    "Fate",
    "FateKind",
    "MissingTool",
    "ProbeContent",
    "ReceivedRequest",
    "find_content",
]
