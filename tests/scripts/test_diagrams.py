"""The diagrams are drawn from what is true: imports of the stages, steps of a real store, and nothing is cut off."""

import ast
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from scripts.docs.diagrams import layers, negotiation, pipeline
from scripts.docs.diagrams.session_life import ENDS, REQUEST, STEPS, WAITING
from scripts.docs.pages import DOCS, PAGES

from accord.ports import QueuedWork
from accord.stores.sqlite import SqliteStore
from accord.wire.session import StoredState
from tests.stores.records import a_session, a_turn, ending

SOURCE = Path(pipeline.__file__).parents[3] / "src" / "accord"
PICTURES = [name for name in PAGES if name.endswith(".svg")]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("stage", pipeline.STAGES, ids=lambda stage: stage.name)
def test_each_stage_of_the_pipeline_imports_what_it_uses(stage: pipeline.Stage):
    tree = ast.parse((SOURCE / f"{stage.module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {f"accord.{name}" for name in stage.uses} <= imported


def test_the_layers_are_the_parts_of_the_package():
    rows, pure = layers.read_layers()
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for row in rows for name in row} == parts - {"__init__"}
    assert pure <= parts


def test_a_looser_policy_never_gives_a_worse_outcome():
    ranks = list(negotiation.COLOURS)
    for _, outcomes in negotiation.leaves(negotiation.make_tree({}, list(negotiation.QUESTIONS))):
        places = [ranks.index(outcome) for outcome in outcomes]
        assert places == sorted(places, reverse=True)


async def place(store: SqliteStore) -> str:
    """Where the turn is now."""
    turn = await store.turn("r1")
    if turn is None:
        return REQUEST
    return WAITING if turn.state is StoredState.RUNNING and not turn.runner else turn.state


async def make(store: SqliteStore, call: str, end: StoredState) -> None:
    """Make one call of the store for the turn."""
    waiting = a_turn(runner="")
    match call:
        case "begin_turn":
            await store.begin_turn(a_session(), a_turn(), history=0)
        case "queue_turn":
            await store.queue_turn(a_session(), waiting, QueuedWork("demo", "{}"))
        case "claim":
            assert await store.claim(["demo"], runner="p2", history=0, history_bytes=0)
        case "queue_again":
            turn = await store.turn("r1")
            assert turn is not None
            assert await store.queue_again(turn)
        case "take_over":
            turn = await store.turn("r1")
            assert turn is not None
            assert await store.take_over(turn, 0.0, runner="p3")
        case "end_turn":
            assert await store.end_turn(ending(state=end))
        case _:
            pytest.fail(f"no test makes the call {call}")


BEFORE = {REQUEST: (), WAITING: ("queue_turn",), StoredState.RUNNING: ("begin_turn",)}
"""The calls that bring a turn to a state."""


@pytest.mark.parametrize(("before", "call", "after"), STEPS)
@pytest.mark.anyio
async def test_each_step_of_a_turn_is_one_that_a_real_store_takes(tmp_path: Path, before: str, call: str, after: str):
    store = SqliteStore(tmp_path / "accord.db")
    await store.open()
    try:
        end = StoredState(after) if after in ENDS else StoredState.DONE
        # Only a turn that was in the queue can go back to it.
        for earlier in ("queue_turn", "claim") if call == "queue_again" else BEFORE[before]:
            await make(store, earlier, end)
        assert await place(store) == before
        await make(store, call, end)
        assert await place(store) == after
    finally:
        await store.close()


def test_every_final_state_says_when_it_is_reached():
    assert set(ENDS) == set(StoredState) - {StoredState.RUNNING}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_and_a_description_and_nothing_outside_of_its_frame(name: str):
    root = ET.parse(DOCS / name).getroot()  # noqa: S314 - a file of ours
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert width <= 840
    assert all((root.findtext(f"{SVG}{tag}") or "").strip() for tag in ("title", "desc"))
    for box in root.findall(f"{SVG}rect[@x]"):
        x, y, wide, high = (float(box.attrib[side]) for side in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + wide <= width
        assert y + high <= height
    for text in root.findall(f"{SVG}text"):
        left, right = extent(text)
        assert left >= 0, text.text
        assert right <= width, text.text


def extent(text: ET.Element) -> tuple[float, float]:
    """Where a text begins and ends at most: a character of the widest usual font takes 0.58 of its size."""
    classes = text.attrib.get("class", "")
    size = 15 if "title" in classes else 11.5 if re.search("small|code", classes) else 13
    long = len(text.text or "") * size * 0.58
    x = float(text.attrib["x"])
    start = x - long / 2 if "middle" in classes else x - long if "end" in classes.split() else x
    return start, start + long
