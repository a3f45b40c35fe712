"""The questions of a probe, and the verdicts on answers."""

import json
from collections.abc import Sequence
from io import BytesIO

import pytest
from PIL import Image

from accord.apis.failure import EndpointError, Failure, FailureReport
from accord.backends.probe import (
    ProbeFinding,
    ProbeQuestion,
    differs_from,
    first_order,
    manifest_of_verdicts,
    probe_questions,
    red_png,
    small_pdf,
    verdict_of_error,
)
from accord.core.work.derive import derived_capabilities
from accord.errors import BackendError
from accord.wire.manifest import SupportLevel
from accord.wire.work import AnyPiece, EndPiece, TextPiece, ThinkingPiece, ToolCallPiece

END = EndPiece()
CALL = ToolCallPiece(id="1", name="look_up", input={"word": "pineapple"})


def says(*texts: str) -> list[AnyPiece]:
    return [*(TextPiece(text=text) for text in texts), END]


def requested(capability: str) -> ProbeQuestion:
    return next(question for question in probe_questions({}) if question.capability == capability)


@pytest.mark.parametrize(
    ("capability", "pieces", "finding"),
    [
        ("streaming", says("1 2", " 3"), "works"),
        ("streaming", says("1 2 3"), "cannot be told"),
        ("system_message", says("Pineapple."), "works"),
        ("system_message", says("Paris"), "cannot be told"),
        ("stop_sequences", says("one two three "), "works"),
        ("stop_sequences", says("one two three four five"), "accepted but ignored"),
        ("stop_sequences", says("no"), "cannot be told"),
        ("tool_use", [CALL, END], "works"),
        ("tool_use", says("I call it"), "cannot be told"),
        ("image_input", says("Red"), "works"),
        ("image_input", says("I see no image"), "cannot be told"),
        ("pdf_input", says("It is 7391."), "works"),
        ("json_mode", says('{"a": 1}'), "works"),
        ("json_mode", says("```json\n{}\n```"), "accepted but ignored"),
        ("structured_output_json_schema", says('{"legs_of_a_cat": 4}'), "works"),
        ("structured_output_json_schema", says('{"legs": 4}'), "accepted but ignored"),
        ("structured_output_json_schema", says("4"), "accepted but ignored"),
        ("structured_output_json_schema", [TextPiece(text="{"), EndPiece(reason="max_tokens")], "cannot be told"),
        ("extended_thinking", [ThinkingPiece(text="hm"), END], "works"),
        ("extended_thinking", [EndPiece(usage={"reasoning_tokens": 9})], "works"),
        ("extended_thinking", says("391"), "cannot be told"),
    ],
)
def test_each_answer_has_its_finding(capability: str, pieces: Sequence[AnyPiece], finding: str):
    assert requested(capability).verdict(pieces).finding == finding


def test_each_question_needs_its_capability_and_is_small():
    for question in probe_questions({}):
        needed = derived_capabilities(question.order)
        assert list(needed) in ([question.capability], []), question.capability
        assert question.order.parameters["max_tokens"] <= 2_048
        assert len(question.order.to_json()) < 3_000
    assert derived_capabilities(first_order({})) == ()


def test_an_unsupported_capability_has_no_question():
    unsupported = {"pdf_input": "there is no place for it", "max_tokens": "nor for it"}
    made = probe_questions(unsupported)
    assert "pdf_input" not in [question.capability for question in made]
    assert all(not question.order.parameters for question in made)


@pytest.mark.parametrize(
    ("failure", "finding"),
    [
        (Failure.BAD_REQUEST, ProbeFinding.REFUSED),
        (Failure.UNSUPPORTED, ProbeFinding.REFUSED),
        (Failure.RATE_LIMITED, ProbeFinding.INCONCLUSIVE),
        (Failure.FAILED, ProbeFinding.INCONCLUSIVE),
    ],
)
def test_only_some_failures_are_refusals(failure: Failure, finding: ProbeFinding):
    assert verdict_of_error(EndpointError("a", FailureReport(failure))).finding is finding
    assert verdict_of_error(BackendError("gone")).finding is ProbeFinding.INCONCLUSIVE


def test_an_inconclusive_finding_is_not_stored():
    verdicts = {
        "streaming": requested("streaming").verdict(says("1", "2")),
        "stop_sequences": requested("stop_sequences").verdict(says("four")),
        "tool_use": requested("tool_use").verdict(says("")),
    }
    assert manifest_of_verdicts(verdicts).model_dump() == {"streaming": "native", "stop_sequences": "unsupported"}


@pytest.mark.parametrize(
    ("level", "finding", "differs"),
    [
        (SupportLevel.NATIVE, ProbeFinding.WORKS, False),
        (SupportLevel.restricted("small"), ProbeFinding.WORKS, False),
        (SupportLevel.NATIVE, ProbeFinding.IGNORED, True),
        (SupportLevel.UNSUPPORTED, ProbeFinding.WORKS, True),
        (SupportLevel.UNSUPPORTED, ProbeFinding.REFUSED, False),
        (None, ProbeFinding.WORKS, True),
        (None, ProbeFinding.INCONCLUSIVE, False),
    ],
)
def test_a_finding_differs_if_it_contradicts_the_declared_level(
    level: SupportLevel | None, finding: ProbeFinding, differs: bool
):
    assert differs_from(level, finding) is differs


def test_the_image_is_red_and_the_document_is_a_pdf():
    image = Image.open(BytesIO(red_png()))
    assert (image.size, image.getpixel((3, 3))) == ((32, 32), (255, 0, 0))
    pdf = small_pdf("The number is 7391.")
    start = int(pdf.rsplit(b"startxref\n", 1)[1].split()[0])
    assert pdf[start:].startswith(b"xref\n0 6\n")
    for number, line in enumerate(pdf[start:].split(b"\n")[3:8], 1):
        assert pdf[int(line[:10]) :].startswith(b"%d 0 obj" % number)
    assert json.dumps("7391")[1:-1].encode() in pdf
