"""Requests of the chat completions API, as the fake model receives them."""

from typing import Any

from accord.acp_tools.inspect.fake_model import ReceivedRequest
from accord.apis.chat.codec import ChatCodec


def chat_request(*messages: Any, **members: Any) -> ReceivedRequest:
    """The request with these messages and further members."""
    return ReceivedRequest(ChatCodec().read_request({"model": "m", "messages": [*messages], **members}))
