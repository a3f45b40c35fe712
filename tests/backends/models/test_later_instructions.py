"""A system message after other messages stays in its place, at APIs that have a place for the first ones only, too."""

from typing import Any, Final

from accord.apis.chat.codec import ChatCodec
from accord.apis.gemini.codec import GeminiCodec
from accord.apis.messages.codec import MessagesCodec
from accord.apis.responses.codec import ResponsesCodec

REQUEST: Final[dict[str, Any]] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "developer", "content": "Be rude."},
        {"role": "assistant", "content": "What?"},
        {"role": "system", "content": [{"type": "text", "text": "Be kind again."}]},
        {"role": "user", "content": "Hello?"},
    ],
}
RUDE, KIND = "<system>\nBe rude.\n</system>", "<system>\nBe kind again.\n</system>"


def sent(codec: Any) -> Any:
    read = ChatCodec().read_request(REQUEST)
    assert "messages[].system" in read.fields
    return codec.write_request(read.order, "m").body


def test_the_messages_api_has_them_as_marked_text_of_the_user():
    body = sent(MessagesCodec())
    assert [block["text"] for block in body["system"]] == ["Be brief.", "Be kind."]
    assert [(each["role"], [block["text"] for block in each["content"]]) for each in body["messages"]] == [
        ("user", ["Hello", RUDE]),
        ("assistant", ["What?"]),
        ("user", [KIND, "Hello?"]),
    ]


def test_gemini_has_them_as_marked_text_of_the_user():
    body = sent(GeminiCodec())
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    texts = [(each["role"], [part["text"] for part in each["parts"]]) for each in body["contents"]]
    assert [role for role, _ in texts][-1] == "user"
    assert [text for _, some in texts for text in some] == ["Hello", RUDE, "What?", KIND, "Hello?"]


def test_the_openai_apis_have_them_as_they_are():
    chat = [each["content"] for each in sent(ChatCodec())["messages"] if each["role"] == "system"]
    items = [each["content"][0]["text"] for each in sent(ResponsesCodec())["input"] if each["role"] == "system"]
    assert chat == items == ["Be brief.", "Be kind.", "Be rude.", "Be kind again."]


def test_system_messages_at_the_beginning_are_no_use_of_the_field():
    first = {**REQUEST, "messages": REQUEST["messages"][:3]}
    assert "messages[].system" not in ChatCodec().read_request(first).fields
