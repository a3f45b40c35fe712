"""The promise about answers, from outside: no part of an answer is lost or changed without a word.

For every part that an answer can have (`answer_parts.py`), from every API to a client of each served one, whole and
streamed: the client gets its values, or the label names it; of its own API it gets every byte. Run as a program, this
prints how many values are silent for each pair:

    python -m tests.servers.model_apis.test_every_part [API]
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pytest

from accord.wire.disposition import SERVED, Api
from tests.servers.model_apis.answer_parts import MODEL, TEXT, Part, all_parts, base_answer
from tests.servers.model_apis.answer_samples import FIRST_COUNT
from tests.servers.model_apis.answer_streams import EVENTS, stream_bytes
from tests.servers.model_apis.client_rules import broken_rules
from tests.servers.model_apis.client_view import ClientView, view_of
from tests.servers.model_apis.scripted_upstream import SOURCES, TAKEN_APART, Service, with_service, without_label

PAIRS: Final = [(source, target) for source in SOURCES for target in SERVED]
"""An answer for a client of its own API is taken apart here: something is emulated."""
USAGE_OF_BASE: Final = (0, 5, 11, 16)
"""Counts of the least answer, to which others may be added: some APIs count in one number what others have in two."""
WRITTEN_ITEMS: Final = ("message", "reasoning", "function_call", "custom_tool_call", "image_generation_call")
BYTES: Final = ("content.", "content.top_logprobs.", "refusal.", "refusal.top_logprobs.")
OWN: Final[Mapping[Api, frozenset[str]]] = {
    Api.CHAT: frozenset(
        {"usage.total_tokens", "usage.prompt_cache_miss_tokens", *(f"choices.logprobs.{name}bytes" for name in BYTES)}
    ),
    Api.RESPONSES: frozenset({"usage.total_tokens", *(f"output.{item}.id" for item in WRITTEN_ITEMS)})
    | {f"output.message.content.output_text.logprobs.{name}" for name in ("bytes", "top_logprobs.bytes")},
    Api.MESSAGES: frozenset[str](),
    Api.GEMINI: frozenset({"usageMetadata.totalTokenCount", "createTime", "candidates.content.parts.thought"}),
}
"""What every answer that Accord writes has of its own: sums and differences, ids of items, times, bytes of tokens."""
SAMPLE: Final = re.compile(r"zq[0-9]{6}")
PLAIN: Final = frozenset({"assistant", "completed", TEXT, TEXT[:5], "function", 0, 5})
"""Values that say nothing, or that the least answer has as well."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A value that a client does not get, and that no label names."""

    target: Api
    part: Part
    path: str
    value: Any
    is_stream: bool
    came: str

    def __str__(self) -> str:
        form = "streamed" if self.is_stream else "whole"
        return (
            f"{self.part.source} → {self.target}, {form}: {self.path} = {self.value!r} ({self.part.name}): {self.came}"
        )


def names_of(path: Sequence[str], value: Any, label: Mapping[str, str]) -> Iterator[str]:
    """The names of the label that are this path or lead to it.

    Either may have types of items between its steps. A name with a value is for that value, or for what is below it.
    """
    for name in label:
        place, _, special = name.partition("=")
        steps = [step for step in re.split(r"[.]|\[\]\.?", place) if step]
        leads = is_within(steps, path) and (not special or special == str(value) or steps[-1] != path[-1])
        if leads or (steps[-1] == path[-1] and is_within(path, steps)):
            yield name


def is_within(steps: Sequence[str], path: Sequence[str]) -> bool:
    """Whether the path has all these steps, in this order."""
    rest = iter(path)
    return all(step in rest for step in steps)


def has_value(view: ClientView, base: ClientView, value: Any) -> bool:
    """Whether the client gets this value."""
    if isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        if abs(value) < FIRST_COUNT:
            return False
        return any(value + more in view.numbers for more in USAGE_OF_BASE) or str(value) in view.strings
    # A sample may be within other text, such as the arguments of a call or a URL with data.
    text = found[0] if (found := SAMPLE.search(str(value))) else str(value)
    return text in view.strings and text not in base.strings


def judge_values(part: Part, target: Api, view: ClientView, base: ClientView) -> Iterator[Silent]:
    """The values of a part that are neither in the answer nor in its label; and names of the label that are not true."""
    by_name, is_stream = dict[str, list[bool]](), view.answer.is_stream
    for path, value in part.leaves:
        name = ".".join(path)
        if value in PLAIN or name in OWN[part.source] or view.is_error:
            continue
        arrived = has_value(view, base, value)
        named = [name for each in (path, *part.aliases) for name in names_of(each, value, view.label)]
        for each in named:
            by_name.setdefault(each, []).append(arrived)
        if not arrived and not named:
            yield Silent(target, part, name, value, is_stream, f"label {sorted(view.label)}")
    for name, arrivals in by_name.items():
        if view.label[name] == "carried" and not any(arrivals):
            yield Silent(target, part, name, "carried", is_stream, "the label says so, but nothing of it came")
        if view.label[name] == "lost" and all(arrivals):
            yield Silent(target, part, name, "lost", is_stream, "the label says so, but all of it came")


@dataclass(slots=True)
class Verdict:
    """What became of the parts of one API for clients of one API."""

    values: int
    silent: list[Silent]
    errors: list[str]
    disagreements: list[str]
    labelled: list[str]
    """Labels of an answer with nothing special, and the model if it is not the one that answered."""


async def view(service: Service, source: Api, target: Api, part: Part, *, is_stream: bool) -> ClientView:
    """What a client gets of an answer with this part."""
    sent = stream_bytes(source, part.events) if is_stream else [json.dumps(part.answer).encode()]
    members: Mapping[str, Any] = TAKEN_APART if source is target else {}
    return view_of(await service.answer(source, target, sent, stream=is_stream, **members))


async def judge(service: Service, source: Api, target: Api, parts: Sequence[Part]) -> Verdict:
    """Send every part through the service, whole and streamed."""
    verdict = Verdict(0, [], [], [], [])
    whole = base_answer(source)
    plain = Part(source, "nothing special", [], whole, [*EVENTS[source](whole)])
    base = {each: await view(service, source, target, plain, is_stream=each) for each in (False, True)}
    verdict.labelled += [f"{each.label}, {each.model}" for each in base.values() if each.label or each.model != MODEL]
    for part in parts:
        views: dict[bool, ClientView] = {}
        for is_stream in (False, True) if part.answer is not None else (True,):
            views[is_stream] = came = await view(service, source, target, part, is_stream=is_stream)
            verdict.values += len(part.leaves)
            name = f"{source} → {target}, {'streamed' if is_stream else 'whole'}: {part.name}"
            if came.is_error:
                verdict.errors.append(f"{name}: {came.answer.content[:300]!r}")
                continue
            verdict.errors += [f"{name}: {problem}" for problem in broken_rules(came)]
            if came.text != TEXT and TEXT in json.dumps(part.answer):
                verdict.errors.append(f"{name}: the text is {came.text!r}")
            if is_stream and not await has_same_receipt(service, came):
                verdict.disagreements.append(f"{name}: the receipt has another label")
            verdict.silent += judge_values(part, target, came, base[is_stream])
        if len(views) == 2:
            verdict.disagreements += compared(f"{source} → {target}: {part.name}", views[False], views[True])
    return verdict


async def has_same_receipt(service: Service, came: ClientView) -> bool:
    """Whether the receipt says of the answer what its label says."""
    receipt = await service.receipt(came.answer)
    works: list[dict[str, Any]] = receipt.get("work") or []
    records: list[dict[str, Any]] = [each for work in works for each in work.get("answer", [])]
    return {each["part"]: each["disposition"] for each in records} == came.label


def compared(name: str, whole: ClientView, streamed: ClientView) -> Iterator[str]:
    if whole.label != streamed.label:
        yield f"{name}: labels: whole {sorted(whole.label)}, streamed {sorted(streamed.label)}"
    if whole.is_error is not streamed.is_error:
        yield f"{name}: an error {'streamed' if streamed.is_error else 'whole'} only"
    elif whole.said != streamed.said and not whole.is_error:
        yield f"{name}: said: whole {whole.said}, streamed {streamed.said}"
    elif whole.usage != streamed.usage and not whole.is_error:
        yield f"{name}: usage: whole {whole.usage}, streamed {streamed.usage}"


async def relayed_differences(service: Service, api: Api, parts: Sequence[Part]) -> list[str]:
    """The parts of which a client of the same API gets other bytes, but for the label."""
    different: list[str] = []
    for each in parts:
        for is_stream in (False, True):
            if not is_stream and each.answer is None:
                continue
            sent = stream_bytes(api, each.events) if is_stream else [json.dumps(each.answer).encode()]
            answer = await service.answer(api, api, sent, stream=is_stream)
            if without_label(answer.content) != b"".join(sent) or ClientView(answer).label:
                different.append(f"{each.name}, {'streamed' if is_stream else 'whole'}: {answer.content[:300]!r}")
    return different


@cache
def parts() -> dict[Api, list[Part]]:
    return all_parts()


@pytest.fixture(scope="module")
def verdicts() -> dict[tuple[Api, Api], Verdict]:
    async def collect(service: Service) -> dict[tuple[Api, Api], Verdict]:
        return {(source, to): await judge(service, source, to, parts()[source]) for source, to in PAIRS}

    return with_service(collect)


def pair_name(value: Any) -> str:
    return str(value)


every_pair = pytest.mark.parametrize(("source", "target"), PAIRS, ids=pair_name)


@every_pair
def test_no_part_of_an_answer_is_lost_without_a_label(
    verdicts: Mapping[tuple[Api, Api], Verdict], source: Api, target: Api
):
    wrong = [str(each) for each in verdicts[source, target].silent]
    assert not wrong, "\n".join(wrong)


@every_pair
def test_an_answer_with_any_part_keeps_its_text_and_the_rules_of_the_api_of_its_client(
    verdicts: Mapping[tuple[Api, Api], Verdict], source: Api, target: Api
):
    wrong = verdicts[source, target].errors
    assert not wrong, "\n".join(wrong)


@every_pair
def test_a_whole_answer_and_a_streamed_one_say_the_same_and_have_the_same_label(
    verdicts: Mapping[tuple[Api, Api], Verdict], source: Api, target: Api
):
    wrong = verdicts[source, target].disagreements
    assert not wrong, "\n".join(wrong)


@every_pair
def test_an_answer_with_nothing_special_has_no_label_and_names_the_model_that_answered(
    verdicts: Mapping[tuple[Api, Api], Verdict], source: Api, target: Api
):
    wrong = verdicts[source, target].labelled
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("api", SERVED, ids=pair_name)
def test_every_part_passes_unchanged_to_a_client_of_its_own_api(api: Api):
    different = with_service(lambda service: relayed_differences(service, api, parts()[api]))
    assert not different, "\n".join(different)


async def report(service: Service, sources: Sequence[Api]) -> None:
    """Print the counts of every pair, and then each silent value."""
    silent: list[Silent] = []
    for source, target in PAIRS:
        if source not in sources:
            continue
        verdict = await judge(service, source, target, parts()[source])
        silent += verdict.silent
        notes = f"{len(verdict.errors)} errors, {len(verdict.disagreements)} whole and streamed disagree"
        print(f"{source} → {target}: {len(verdict.silent)} of {verdict.values} parts silent; {notes}")
        for line in (*verdict.labelled, *verdict.errors, *verdict.disagreements):
            print(f"    {line}")
    print("\n".join(map(str, silent)))


if __name__ == "__main__":
    with_service(lambda service: report(service, [Api(name) for name in sys.argv[1:]] or SOURCES))
