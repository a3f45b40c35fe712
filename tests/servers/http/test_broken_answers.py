"""Broken answers of an endpoint, through a real service: the next backend answers, or the stream ends with an error."""

import http.client
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from tests.client.faulty_server import BARE_STREAM_HEAD, Do, FaultyServer, Seen, Step, whole
from tests.servers.model_apis.served import serve_config
from tests.servers.transports import body as turn_body

CLIENTS = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    "responses": ("/v1/responses", {"input": "hi", "store": False}),
    "messages": ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}),
}
ENDPOINTS = ("chat", "responses", "messages", "gemini")
OPTIONS = {
    "chat": ("openai", 'api = "chat"'),
    "responses": ("openai", 'api = "responses"'),
    "messages": ("anthropic", ""),
    "gemini": ("gemini", ""),
}
WORDS = "Hello there."
MORE = "And more."
FOREIGN = "forged-by-the-endpoint"


def whole_answer(api: str) -> dict[str, Any]:
    """A complete answer of this API."""
    match api:
        case "chat":
            message = {"role": "assistant", "content": WORDS}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage: dict[str, Any] = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
            return {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        case "responses":
            content: list[Any] = [{"type": "output_text", "text": WORDS, "annotations": []}]
            item: dict[str, Any] = {
                "type": "message",
                "id": "i1",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
            usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
            return {"id": "resp_1", "status": "completed", "model": "m", "output": [item], "usage": usage}
        case "messages":
            content: list[Any] = [{"type": "text", "text": WORDS}]
            usage = {"input_tokens": 3, "output_tokens": 4}
            message: dict[str, Any] = {
                "id": "m1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": content,
            }
            return {**message, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
        case _:
            candidate = {"content": {"role": "model", "parts": [{"text": WORDS}]}, "finishReason": "STOP", "index": 0}
            usage = {"promptTokenCount": 3, "candidatesTokenCount": 4}
            return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "g1"}


def events(api: str) -> list[dict[str, Any]]:
    """The events of a complete stream of this API, with text in the second and third of those that have any."""
    match api:
        case "chat":
            deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": WORDS}, {"content": MORE}]
            chunks = [(delta, None) for delta in deltas] + [({}, "stop")]
            return [
                {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
                for delta, end in chunks
            ]
        case "responses":
            begun: dict[str, Any] = {**whole_answer(api), "status": "in_progress", "output": [], "usage": None}
            deltas = [{"type": "response.output_text.delta", "delta": text} for text in (WORDS, MORE)]
            ended = {"type": "response.completed", "response": whole_answer(api)}
            return [{"type": "response.created", "response": begun}, *deltas, ended]
        case "messages":
            message: dict[str, Any] = {**whole_answer(api), "content": [], "stop_reason": None}
            deltas = [
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
                for text in (WORDS, MORE)
            ]
            end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}
            return [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                *deltas,
                {"type": "content_block_stop", "index": 0},
                end,
                {"type": "message_stop"},
            ]
        case _:
            candidates = [{"content": {"parts": [{"text": text}]}, "index": 0} for text in (WORDS, MORE)]
            return [{"candidates": [each], "modelVersion": "m"} for each in candidates] + [whole_answer(api)]


def event_bytes(event: bytes | Mapping[str, Any]) -> bytes:
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    kind = event.get("type") if not isinstance(event, bytes) else None
    return (f"event: {kind}\n".encode() if kind else b"") + b"data: " + data + b"\n\n"


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "bad UTF-8": lambda text: text.replace(b"Hello", b"\xff\xfe"),
    "half a surrogate pair": lambda text: text.replace(b"Hello", b"\\ud83d"),
    "a surrogate in UTF-8": lambda text: text.replace(b"Hello", b"\xed\xa0\x80"),
    "a control character": lambda text: text.replace(b"Hello", b"\x01"),
    "NaN": lambda text: text[:-1] + b', "x": NaN}',
    "Infinity": lambda text: text[:-1] + b', "x": -Infinity}',
    "deep": lambda text: text[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "trailing bytes": lambda text: text + b" and more",
    "two objects": lambda text: text + text,
    "half an object": lambda text: text[: len(text) // 2],
    "a list of numbers": lambda _: b"[1, 2]",
    "text": lambda _: b'"Hello"',
    "null": lambda _: b"null",
    "HTML": lambda _: b"<html><body>Hello</body></html>",
}
"""How the text of a whole answer, or the data of an event, is broken, whoever reads it."""
RELAYED: dict[str, Callable[[bytes], bytes]] = {
    "5,000 digits": lambda text: text[:-1] + b', "x": ' + b"9" * 5_000 + b"}",
    "250 levels": lambda text: text[:-1] + b', "x": ' + b"[" * 250 + b"]" * 250 + b"}",
    "bad UTF-8 in an unknown member": lambda text: text[:-1] + b', "x": "\xff"}',
}
"""Further ones that matter where the bytes are passed on; a translated answer does not have them."""


@dataclass
class Endpoint:
    """What the hostile endpoint answers next."""

    steps: list[Step]
    others: list[Step] | None = None
    """What it answers after the first request, if that is something else."""
    requests: int = 0

    def answer(self, seen: Seen) -> list[Step]:
        if seen.method == "GET":
            return [whole(200, b'{"data": []}')]
        self.requests += 1
        if self.others is None:
            return self.steps
        steps, self.steps = self.steps, self.others
        return steps


def answer_well(seen: Seen) -> list[Step]:
    """The second backend: whatever the API, a good answer."""
    if seen.method == "GET":
        return [whole(200, b'{"data": []}')]
    path = seen.target
    api = next((name for name in ("chat", "responses", "messages") if name in path), "gemini")
    if b'"stream":true' not in seen.body and "stream" not in path.lower():
        return [whole(200, json.dumps(whole_answer(api)).encode())]
    done = b"data: [DONE]\n\n" if api == "chat" else b""
    return [BARE_STREAM_HEAD + b"".join(map(event_bytes, events(api))) + done, Do.CLOSE]


@dataclass
class Served:
    """The service, and its hostile endpoint."""

    address: str
    endpoint: Endpoint

    def post(self, api: str, model: str, *, stream: bool) -> tuple[int, dict[str, str], bytes]:
        path, body = CLIENTS[api]
        return self.send("POST", path, {**body, "model": model, "stream": stream})

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=20)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    endpoint = Endpoint([])
    with FaultyServer(endpoint.answer) as bad, FaultyServer(answer_well) as good:
        config = "[circuit]\nfailures = 1000\n"
        for api, (kind, options) in OPTIONS.items():
            for name, url in (("bad", bad.url), ("good", good.url)):
                base = f"{url}/v1" if kind == "openai" else url
                config += f'[[backends]]\nname = "{name}-{api}"\nkind = "{kind}"\nmodel = "m"\nmanifest = "declared"\n'
                config += f'base_url = "{base}"\noverrides = {{ streaming = "native", system_message = "native" }}\n'
                config += f"[backends.options]\nretries = 0\n{options}\n"
            config += f'[groups."to-{api}"]\nbackends = ["bad-{api}", "good-{api}"]\n'
        keys = {f"ACCORD_KEY_{name}_{api}".upper(): "k" for name in ("BAD", "GOOD") for api in OPTIONS}
        with serve_config(tmp_path_factory.mktemp("served"), config, keys) as address:
            yield Served(address, endpoint)


def check_fallback(served: Served, api: str, to: str, *, stream: bool, fault: str) -> None:
    requests = served.endpoint.requests
    status, headers, body = served.post(api, f"to-{to}", stream=stream)
    assert served.endpoint.requests == requests + 1, fault
    assert status == 200, (fault, body)
    assert headers["accord-served-by"].startswith(f"good-{to}"), (fault, headers, body[:500])
    assert WORDS.encode() in body, (fault, body)


@pytest.mark.parametrize("to", ENDPOINTS)
@pytest.mark.parametrize("api", CLIENTS)
def test_a_broken_whole_answer_goes_to_the_next_backend(served: Served, api: str, to: str):
    text = json.dumps(whole_answer(to)).encode()
    faults = {**BROKEN, **(RELAYED if api == to else {})}
    replies = {name: whole(200, fault(text)) for name, fault in faults.items()}
    replies |= {
        "empty": whole(200, b""),
        "an empty object": whole(200, b"{}"),
        "HTML as such": whole(200, b"<html></html>", kind="text/html"),
        "half a compressed answer": whole(200, zlib.compress(text)[:-9], "Content-Encoding: gzip"),
        "cut off": whole(200, text)[:-9],
    }
    for name, reply in replies.items():
        served.endpoint.steps = [reply, Do.CLOSE]
        check_fallback(served, api, to, stream=False, fault=name)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("to", [name for name in ENDPOINTS if name != "chat"])
def test_one_broken_answer_of_several_goes_to_the_next_backend(served: Served, to: str, *, stream: bool):
    path, body = CLIENTS["chat"]
    waits: list[list[Step]] = [[Do.HOLD], [Do.BEAT, whole(200, b"no"), Do.CLOSE]]
    for others in waits:
        served.endpoint.steps, served.endpoint.others = [whole(200, b"no"), Do.CLOSE], others
        try:
            request = {**body, "model": f"to-{to}", "stream": stream, "n": 2}
            status, headers, answer = served.send("POST", path, request)
        finally:
            served.endpoint.others = None
        assert (status, headers["accord-served-by"].split(";")[0]) == (200, f"good-{to}"), answer
        assert all(b'"index":%d' % number in answer for number in range(2)), answer


@pytest.mark.parametrize("to", ENDPOINTS)
@pytest.mark.parametrize("api", CLIENTS)
def test_a_stream_with_a_broken_first_event_goes_to_the_next_backend(served: Served, api: str, to: str):
    first, *rest = events(to)
    text = json.dumps(first).replace('""', f'"{WORDS}"').encode()
    if b"Hello" not in text:
        text = text[:-1] + b', "model": "Hello"}' if api == to else text
    for name, fault in {**BROKEN, **(RELAYED if api == to else {})}.items():
        if fault(text) != text:
            served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(map(event_bytes, [fault(text), *rest])), Do.CLOSE]
            check_fallback(served, api, to, stream=True, fault=name)
    for name, steps in {
        "empty": [BARE_STREAM_HEAD],
        "comments only": [BARE_STREAM_HEAD + b": wait\n\n" * 10],
        "the end only": [BARE_STREAM_HEAD + b"data: [DONE]\n\n"],
        "HTML": [whole(200, b"<html></html>", kind="text/html")],
        "an error": [BARE_STREAM_HEAD + event_bytes({"type": "error", "error": {"message": "no", "code": 503}})],
    }.items():
        served.endpoint.steps = [*steps, Do.CLOSE]
        check_fallback(served, api, to, stream=True, fault=name)


@pytest.mark.parametrize("to", ENDPOINTS)
@pytest.mark.parametrize("api", CLIENTS)
def test_a_broken_event_in_a_stream_is_an_error_and_not_its_end(served: Served, api: str, to: str):
    stream = events(to)
    place = next(number for number, event in enumerate(stream) if WORDS in json.dumps(event)) + 1
    text = json.dumps(stream[place]).replace("And", "Hello").encode()
    for name, fault in {**BROKEN, **(RELAYED if api == to else {})}.items():
        sent = [*stream[:place], fault(text), *stream[place + 1 :]]
        served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(map(event_bytes, sent)) + b"data: [DONE]\n\n", Do.CLOSE]
        status, headers, body = served.post(api, f"bad-{to}", stream=True)
        assert status == 200, (name, body)
        assert WORDS.encode() in body, (name, body)
        assert b"cannot be understood" in body, (name, body)
        for end in (b"[DONE]", b"message_stop", b"response.completed", b'"finish_reason":"stop"'):
            assert end not in body, (name, body)
        receipt = json.loads(served.send("GET", headers["accord-receipt"])[2])
        assert receipt["outcome"]["status"] != "done", (name, receipt["outcome"])


QUOTED = {"type": "response.output_text.delta", "delta": '{"type": "response.completed"} [DONE] message_stop'}
"""Text that reads like the ends of streams."""
FAILED_RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "model": "m",
    "output": [],
    "error": {"code": "server_error", "message": "It broke."},
}
NO_ENDS: dict[str, list[dict[str, Any]]] = {
    "text that quotes ends": [QUOTED],
    "the last event without a response": [QUOTED, {"type": "response.completed"}],
    "a response that has not ended": [
        {"type": "response.completed", "response": {**whole_answer("responses"), "status": "in_progress"}}
    ],
    "a response that failed": [{"type": "response.failed", "response": {**FAILED_RESPONSE, "status": "failed"}}],
    "a response that was cancelled": [
        {"type": "response.completed", "response": {**whole_answer("responses"), "status": "cancelled"}}
    ],
    "an error": [{"type": "error", "code": "server_error", "message": "It broke.", "param": None}],
}


@pytest.mark.parametrize("api", CLIENTS)
@pytest.mark.parametrize("name", NO_ENDS)
def test_a_response_is_complete_only_by_its_own_end(served: Served, name: str, api: str):
    stream = [*events("responses")[:2], *NO_ENDS[name]]
    served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(map(event_bytes, stream)), Do.CLOSE]
    status, headers, body = served.post(api, "bad-responses", stream=True)
    assert (status, WORDS.encode() in body) == (200, True), body
    receipt = json.loads(served.send("GET", headers["accord-receipt"])[2])
    assert receipt["outcome"]["status"] == "failed", receipt["outcome"]
    assert b"error" in body
    path, request = CLIENTS["responses"]
    if api == "responses":  # nothing is stored that did not end
        served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(map(event_bytes, stream)), Do.CLOSE]
        request = {**request, "model": "bad-responses", "stream": True, "store": True}
        number = served.send("POST", path, request)[1]["accord-receipt"].rpartition("/")[2].replace("-", "")
        assert served.send("GET", f"{path}/resp_{number}")[0] == 404


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "messages"])
def test_what_a_client_does_not_get_of_a_response_is_in_the_label_and_the_receipt(
    served: Served, api: str, *, stream: bool
):
    answer = whole_answer("responses")
    answer["output"] = [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, *answer["output"]]
    ended = {"type": "response.completed", "response": answer}
    reply = BARE_STREAM_HEAD + b"".join(map(event_bytes, [*events("responses")[:2], ended]))
    served.endpoint.steps = [reply if stream else whole(200, json.dumps(answer).encode()), Do.CLOSE]
    _, headers, body = served.post(api, "bad-responses", stream=stream)
    receipt = json.loads(served.send("GET", headers["accord-receipt"])[2])
    assert b'"part":"output[].web_search_call","disposition":"lost"' in body
    assert "output[].web_search_call" in json.dumps(receipt)


@pytest.mark.parametrize("to", ["chat", "messages"])
def test_the_receipt_of_a_stream_that_broke_off_has_the_failure_of_its_backend(served: Served, to: str):
    served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(map(event_bytes, events(to)[:3])), Do.CLOSE]
    _, headers, _ = served.post("chat", f"bad-{to}", stream=True)
    receipt = json.loads(served.send("GET", headers["accord-receipt"])[2])
    (failure,) = receipt["work"][0]["fallbacks"]
    assert (receipt["outcome"]["status"], failure["backend"]) == ("failed", f"bad-{to}")
    assert failure["message"] == receipt["outcome"]["message"]


def wrong_types(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every way to give one member another type, with its path."""
    if path:
        others: list[Any] = [5, "x", ["x"], {"x": 1}, True, [[]], None]
        for other in others:
            if type(other) is not type(value):
                yield f"{path} = {other}", other
    inner: Any = (
        cast("dict[str, Any]", value).items()
        if isinstance(value, dict)
        else enumerate(cast("list[Any]", value))
        if isinstance(value, list)
        else ()
    )
    for name, each in inner:
        for where, changed in wrong_types(each, f"{path}/{name}"):
            copy = cast("Any", value).copy()
            copy[name] = changed
            yield where, copy


@pytest.mark.parametrize("to", ENDPOINTS)
@pytest.mark.parametrize("api", CLIENTS)
def test_a_member_of_a_wrong_type_is_never_a_failure_of_the_service(served: Served, api: str, to: str):
    fallbacks = set[str]()
    for name, answer in wrong_types(whole_answer(to)):
        served.endpoint.steps = [whole(200, json.dumps(answer).encode())]
        status, headers, body = served.post(api, f"to-{to}", stream=False)
        assert status == 200, (name, body)
        if headers["accord-served-by"].startswith("good"):
            fallbacks.add(name.split(" ")[0])
    needed = {
        "chat": {"/choices", "/choices/0", "/choices/0/message", "/choices/0/message/content", "/usage"},
        "responses": {"/output", "/output/0", "/usage", "/model", "/status"},
        "messages": {"/content", "/content/0", "/usage", "/model"},
        "gemini": {"/candidates", "/candidates/0", "/candidates/0/content/parts", "/usageMetadata"},
    }
    assert needed[to] <= fallbacks


@pytest.mark.parametrize("to", ENDPOINTS)
@pytest.mark.parametrize("api", CLIENTS)
def test_an_event_of_a_wrong_shape_is_never_a_failure_of_the_service(served: Served, api: str, to: str):
    stream = events(to)
    for place in (0, 1, len(stream) - 1):
        for name, event in wrong_types(stream[place]):
            sent = [*stream[:place], event, *stream[place + 1 :]]
            served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(map(event_bytes, sent)), Do.CLOSE]
            status, _, body = served.post(api, f"to-{to}", stream=True)
            assert status == 200, (name, body)
            assert b"internal" not in body.lower(), (name, body)


LABELS = {
    "plain": b'"accord": {"served_by": "%s"}',
    "escaped": b'"\\u0061ccord": {"served_by": "%s"}',
    "escaped throughout": b'"\\u0061\\u0063\\u0063\\u006F\\u0072\\u0064": {"served_by": "%s"}',
    "twice": b'"accord": {"served_by": "x"}, "\\u0061ccord": {"served_by": "%s"}',
    "not an object": b'"accord": "%s"',
    "null": b'"accord": null, "x": "%s"',
    "a list": b'"acc\\u006frd": ["%s"]',
}


def labels_in(value: Any) -> list[Any]:
    """The members called `accord` of a decoded object and those in it, duplicates included."""
    return json.loads(value, object_pairs_hook=lambda pairs: pairs)


def count_labels(pairs: Any) -> int:
    if isinstance(pairs, tuple):
        return 1 if pairs[0] == "accord" else count_labels(pairs[1])
    return sum(map(count_labels, cast("list[Any]", pairs))) if isinstance(pairs, list) else 0


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("api", CLIENTS)
def test_a_label_of_an_endpoint_never_stands_beside_ours(served: Served, api: str, kind: str):
    forged = LABELS[kind].replace(b"%s", FOREIGN.encode())
    answer = b"{" + forged + b", " + json.dumps(whole_answer(api)).encode()[1:-1] + b", " + forged + b"}"
    served.endpoint.steps = [whole(200, answer)]
    status, headers, body = served.post(api, f"bad-{api}", stream=False)
    assert (status, headers["accord-served-by"]) == (200, f"bad-{api}; model=m")
    assert count_labels(labels_in(body)) == 1
    assert json.loads(body)["accord"]["served_by"] == f"bad-{api}"

    forged_events = [
        re.sub(rb'("(?:response|message)": \{)', lambda found: found[1] + forged + b", ", text[:-1])
        + b", "
        + forged
        + b"}"
        for text in (json.dumps(event).encode() for event in events(api))
    ]
    for separator in (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"):
        sent = [b"data: " + data for data in forged_events]
        done = [b"data: [DONE]"] if api == "chat" else []
        served.endpoint.steps = [BARE_STREAM_HEAD + b": {}" + separator + separator.join([*sent, *done, b""]), Do.CLOSE]
        status, headers, body = served.post(api, f"bad-{api}", stream=True)
        lines = [line for line in body.splitlines() if line.startswith(b"data: {")]
        assert len(lines) == len(events(api)), body
        counts = [count_labels(labels_in(line[6:])) for line in lines]
        assert counts == [1] + [0] * (len(lines) - 1), body
        assert json.loads(lines[0][6:])["accord"]["served_by"] == f"bad-{api}"


@pytest.mark.parametrize("model", ["m\r\nset-cookie: a=b", "m\x00\x1f\x7f", "modèle ☃", "m" * 2_000_000, "", " "])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("to", ENDPOINTS)
def test_a_models_name_is_a_short_printable_header(served: Served, to: str, model: str, *, stream: bool):
    texts = [json.dumps(each) for each in (events(to) if stream else [whole_answer(to)])]
    named = [
        text.replace('"model": "m"', f'"model": {json.dumps(model)}').replace(
            '"modelVersion": "m"', f'"modelVersion": {json.dumps(model)}'
        )
        for text in texts
    ]
    if stream:
        served.endpoint.steps = [BARE_STREAM_HEAD + b"".join(event_bytes(text.encode()) for text in named), Do.CLOSE]
    else:
        served.endpoint.steps = [whole(200, named[0].encode())]
    for api in CLIENTS:
        status, headers, _ = served.post(api, f"bad-{to}", stream=stream)
        assert status == 200
        assert headers["accord-served-by"].startswith(f"bad-{to}")
        assert headers["accord-served-by"].isprintable()
        assert headers["accord-served-by"].isascii()
        assert len(headers["accord-served-by"]) < 300
        assert "set-cookie" not in headers


@pytest.mark.parametrize("to", ENDPOINTS)
@pytest.mark.parametrize("api", CLIENTS)
def test_comments_before_the_first_event_are_dropped_and_bounded(served: Served, api: str, to: str):
    done = b"data: [DONE]\n\n" if to == "chat" else b""
    stream = b"".join(map(event_bytes, events(to))) + done
    served.endpoint.steps = [BARE_STREAM_HEAD + b": {wait}\n\nevent: ping\n\n" * 50 + stream, Do.CLOSE]
    status, headers, body = served.post(api, f"bad-{to}", stream=True)
    assert (status, MORE.encode() in body) == (200, True)
    assert b"wait" not in body
    assert b'"accord":' in body
    for flood in (b": wait\n\n" * 1_000, b"event: ping\n\n" * 1_000, b"id: 1\n\n" * 1_000):
        served.endpoint.steps = [BARE_STREAM_HEAD, *[flood] * 150, stream, Do.CLOSE]
        status, headers, body = served.post(api, f"to-{to}", stream=True)
        assert (status, headers["accord-served-by"].split(";")[0]) == (200, f"good-{to}")


def test_the_id_of_an_agents_turn_is_not_that_of_a_response(served: Served):
    request = turn_body(1)
    assert served.send("POST", "/v1/assist", request)[0] == 200
    hexadecimal = request["request_id"].replace("-", "")
    for given in (request["request_id"], f"resp_{hexadecimal}", f"resp_{uuid4().hex}"):
        assert served.send("GET", f"/v1/responses/{given}")[0] == 404
        body = {"model": "good-responses", "input": "hi", "previous_response_id": given}
        status, _, answer = served.send("POST", "/v1/responses", body)
        assert (status, json.loads(answer)["error"]["code"]) == (400, "previous_response_not_found")


def with_end(answer: dict[str, Any], reason: str) -> dict[str, Any]:
    """The answer, or the event, with this end, if it is the one that has the end."""
    choices = [{**each, "finish_reason": each["finish_reason"] and reason} for each in answer.get("choices", [])]
    ended = {"choices": choices} if choices else {}
    if answer.get("stop_reason"):
        ended = {"stop_reason": reason}
    if answer.get("type") == "message_delta":
        ended = {"delta": {"stop_reason": reason}}
    return {**answer, **ended}


@pytest.mark.parametrize("to", ["chat", "messages"])
@pytest.mark.parametrize("api", CLIENTS)
def test_an_answer_that_ends_with_an_error_has_failed(served: Served, api: str, to: str):
    done = b"data: [DONE]\n\n" if to == "chat" else b""
    sent = b"".join(event_bytes(with_end(each, "error")) for each in events(to)) + done
    served.endpoint.steps = [BARE_STREAM_HEAD + sent, Do.CLOSE]
    status, headers, body = served.post(api, f"bad-{to}", stream=True)
    assert status == 200
    assert WORDS.encode() in body
    assert b"ended with an error" in body
    if api == to:  # its bytes are passed on, but for the label in the first event
        assert sent.partition(b"\n\n")[2] in body
    receipt = json.loads(served.send("GET", headers["accord-receipt"])[2])
    assert receipt["outcome"]["status"] == "failed"

    answer = with_end(whole_answer(to), "error")
    served.endpoint.steps = [whole(200, json.dumps(answer).encode())]
    check_fallback(served, api, to, stream=False, fault="an end that is an error")
