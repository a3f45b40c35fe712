"""System messages are folded into the first user message."""

import pytest

from accord.core.work.emulation.injection import DIVIDER, HEADING, SystemMessage
from accord.wire.work import WorkOrder
from tests.core.work.emulation.scripted import pieces, read, talk, texts_of

FOLD = SystemMessage()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([("user", "u")], [("user", "u")]),
        ([("system", "s"), ("user", "u")], [("user", f"{HEADING}s{DIVIDER}u")]),
        (
            [("system", "s"), ("assistant", "a"), ("user", "u"), ("system", "t"), ("user", "v")],
            [("assistant", "a"), ("user", f"{HEADING}s{DIVIDER}t{DIVIDER}u"), ("user", "v")],
        ),
        ([("system", "s")], [("user", f"{HEADING}s{DIVIDER}")]),
        ([], []),
    ],
)
def test_system_messages_are_folded_into_the_first_user_message(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
):
    order = WorkOrder(conversation=talk(*before))
    prepared = FOLD.prepare(order)
    messages = [(str(message.role), "".join(texts_of(message))) for message in prepared.order.conversation.messages]
    assert messages == after
    assert sum(effect.count for effect in prepared.effects) == sum(role == "system" for role, _ in before)
    assert order == WorkOrder(conversation=talk(*before))


def test_the_answer_is_not_changed():
    assert read(FOLD, WorkOrder(), pieces("a", "b")).out == pieces("ab")
