"""docs/answers.md: what becomes of each part of an answer. Its example goes through the real codecs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.docs.dispositions import PATHS, REQUEST_ID, TITLES

from accord.apis.answer_table import ANSWER_TABLE, answer_records
from accord.apis.answers import AnswerRow
from accord.apis.chat.codec import ChatCodec
from accord.apis.codec import AnswerLabels
from accord.apis.messages.codec import MessagesCodec
from accord.wire.disposition import SERVED, Api
from accord.wire.work import EndPiece

ANSWER: Final[dict[str, Any]] = {
    "id": "msg_01",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {
            "type": "text",
            "text": "The contract ends in May.",
            "citations": [
                {
                    "type": "char_location",
                    "cited_text": "It ends on 31 May.",
                    "document_index": 0,
                    "document_title": "Contract",
                    "start_char_index": 0,
                    "end_char_index": 18,
                }
            ],
        }
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 40, "output_tokens": 8},
}
HEADINGS: Final[Mapping[Api, str]] = {**TITLES, Api.GEMINI: "Gemini", Api.ACP: "Other backends"}

INTRODUCTION: Final = """\
<!-- Written by `make docs` from src/accord/apis/*/answer_rows.py. Do not edit. -->

# What becomes of each part of an answer

What a backend answers has parts that the client's API may not have. For every part of every backend's API and for
every API that Accord serves, Accord does one of three things, and always the same:

| disposition | meaning |
|---|---|
| native | the client gets it as its API has it |
| carried | the client gets it in another form, which the label says |
| lost | the client's API has no place for it; always labelled |

An answer of the client's own API is passed on as it came, with every part, known or not. Only if something had to be
emulated is it taken apart and put together again; the column of the API itself says what this keeps.

[dispositions.md](dispositions.md) has the same for the fields of requests.

## An example

A backend that speaks the Messages API gives this answer:

```json
{answer}
```

A client of the chat completions API gets:

```json
{body}
```

Of a stream, the event with the end of the answer has an `accord` object with `answer` alone: the chunk with the last
`finish_reason`, `response.completed` or `response.incomplete`, or `message_delta`.

## How it is decided

1. The tables below say what each API can carry. Their rows stand beside the code that reads and writes the API.
2. A part that no row knows, because the endpoint is newer than Accord for example, is lost and labelled with its path.
3. An end that no rule knows is never a normal end: it counts as cut off at the limit of tokens, and is labelled.
4. An answer that failed, or that stops before its own end, is an error and no answer, whatever its text says.
5. Other backends (scripts, ACP agents, backends written in Python) have a short table; what else their answers have is
   labelled if they name it in `EndPiece.parts` ([backends.md](backends.md#write-a-backend)).

The labels are also in the receipt (`work[].answer`, [receipts.md](receipts.md)), in the metric
`accord_answer_parts_total`, in the log and in the span of the call ([observability.md](observability.md)); there a part
that no row knows is `other`.

## The tables

The columns are the API of the client. `[]` in a name is any item of a list; where items have a `type`, it follows in
the path. A name with `=` is a value that needs a word of its own. A value that says nothing, such as `null`, `""` or an
empty list, is no part.
"""


def crossed_example() -> dict[str, Any]:
    """The example as a client of the chat completions API gets it."""
    pieces = MessagesCodec().read_answer(json.dumps(ANSWER).encode())
    end = pieces[-1]
    if not isinstance(end, EndPiece):
        raise TypeError("an answer ends with its end")
    records = answer_records(Api.MESSAGES, end.parts, Api.CHAT)
    label = {
        "request_id": REQUEST_ID,
        "receipt": f"/v1/requests/{REQUEST_ID}/receipt",
        "served_by": "claude",
        "model": end.model,
        "dispositions": [],
        "answer": [each.dump() for each in records],
    }
    codec = ChatCodec()
    request = codec.read_request({"model": "claude", "messages": [{"role": "user", "content": "When does it end?"}]})
    labels = AnswerLabels(REQUEST_ID.replace("-", ""), 1_794_945_000, str(end.model), label)
    return codec.write_answer(request, labels, [pieces])


def table_lines(api: Api) -> Iterator[str]:
    """The table of one API as lines of markdown."""
    yield f"### {HEADINGS[api]}"
    yield ""
    if api in PATHS:
        yield f"Answers to `{PATHS[api]}`"
        yield ""
    yield f"| part | {' | '.join(SERVED)} | note |"
    yield "|---" * (len(SERVED) + 2) + "|"
    for row in ANSWER_TABLE[api].values():
        cells = " | ".join(row.cells[target].value for target in SERVED)
        yield f"| `{row.name}` | {cells} | {note_of(row)} |"


def note_of(row: AnswerRow) -> str:
    """What else is to be said of a part: the values that say nothing, and the note of the table."""
    neutral = ", ".join(f"`{json.dumps(value)}`" for value in row.neutral)
    return "; ".join(text for text in (f"{neutral} says nothing" if neutral else "", row.note) if text)


def page() -> str:
    """The whole page."""
    introduction = INTRODUCTION.format(
        answer=json.dumps(ANSWER, indent=2), body=json.dumps(crossed_example(), indent=2)
    )
    return "\n".join([introduction, *("\n".join(table_lines(api)) + "\n" for api in HEADINGS)])
