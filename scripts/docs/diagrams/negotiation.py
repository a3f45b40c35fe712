"""docs/diagrams/negotiation.svg: what becomes of a required capability, by planning every combination of causes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scripts.docs.svg import Drawing

from accord.core.work.emulation.choose import preset_config
from accord.core.work.plan import Candidate, PlanConfig, plan_requirements
from accord.wire.capability import Capability
from accord.wire.emulation import EmulationConfig
from accord.wire.manifest import CapabilityManifest, CapabilityRequirements, MinSupport
from accord.wire.plan import Refusal, UnknownPolicy, WorkPolicy

NAME: Final = Capability.TOOL_USE
NOTHING: Final = "nothing"
LEVELS: Final[Mapping[str, Any]] = {
    "native": "native",
    "emulated": "emulated",
    "restricted": {"restricted": {"reason": "sandbox only"}},
    "unsupported": "unsupported",
    NOTHING: None,
}
QUESTIONS: Final[Mapping[str, Sequence[str]]] = {
    "manifest says": tuple(LEVELS),
    "unknown =": tuple(map(str, UnknownPolicy)),
    "can be emulated": ("yes", "no"),
    "min_support": tuple(map(str, MinSupport)),
}
"""The questions of the tree in their order, with their answers."""

NATIVE, BY_BACKEND, BY_ACCORD = "native", "emulated, by the backend", "emulated, by Accord"
TRIED, LOST, REFUSED = "tried, endpoint decides", "lost, and recorded", "refused"
COLOURS: Final = {
    NATIVE: "green",
    BY_BACKEND: "blue",
    BY_ACCORD: "blue",
    TRIED: "yellow",
    LOST: "orange",
    REFUSED: "red",
}

Outcomes = tuple[str, ...]
"""What comes out under each policy."""
Tree = Outcomes | tuple[str, tuple[tuple[tuple[str, ...], Any], ...]]
"""The outcomes, or a question with its answers and the tree below each."""

COLUMNS: Final = dict(zip(QUESTIONS, (24, 160, 248, 352), strict=True))
WIDTHS: Final = dict(zip(QUESTIONS, (112, 64, 80, 84), strict=True))
POLICIES_LEFT, CELL, ROW, GAP, TOP = 462, 112, 38, 8, 92


def page() -> str:
    """The picture."""
    tree = make_tree({}, list(QUESTIONS))
    rows = list(leaves(tree))
    title = f"What becomes of a required capability ({NAME}) at one backend"
    drawing = Drawing(title, "; ".join(map(_sentence, rows)), 840, TOP + len(rows) * (ROW + GAP) + 42)
    drawing.text(24, 34, title, "title")
    drawing.text(POLICIES_LEFT, 56, "policy =", "small muted")
    for name, x in COLUMNS.items():
        drawing.text(x + WIDTHS[name] / 2, 78, name, "small muted middle")
    for index, policy in enumerate(WorkPolicy):
        drawing.text(POLICIES_LEFT + index * (CELL + GAP) + CELL / 2, 78, policy, "bold middle")
    _draw(drawing, tree, TOP, None)
    drawing.text(24, TOP + len(rows) * (ROW + GAP) + 22, NOTE, "small muted")
    return drawing.svg()


NOTE: Final = "Every combination was planned by core/work/plan.py; a question is shown only where its answer matters."


def decide(answers: Mapping[str, str], policy: WorkPolicy) -> str:
    """Plan one combination, and say what becomes of the capability."""
    level, unknown, is_emulated, minimum = (answers[question] for question in QUESTIONS)
    manifest = CapabilityManifest({} if level == NOTHING else {NAME: LEVELS[level]})
    emulation = preset_config([NAME]) if is_emulated == "yes" else EmulationConfig()
    outcome = plan_requirements(
        CapabilityRequirements.model_validate({"required": [{"capability": NAME, "min_support": minimum}]}),
        [Candidate("backend", manifest)],
        PlanConfig(policy, UnknownPolicy(unknown), emulation),
    )
    if isinstance(outcome, Refusal):
        return REFUSED
    offer = outcome.offer
    found = {NATIVE: offer.negotiation.native, BY_BACKEND: offer.negotiation.emulatable}
    found |= {BY_ACCORD: offer.rescues, TRIED: offer.tried, LOST: offer.losses}
    (result,) = [name for name, listed in found.items() if listed]
    return result


def make_tree(answers: Mapping[str, str], questions: Sequence[str]) -> Tree:
    """The tree below these answers: answers with the same tree are one branch, and one branch is no question."""
    if not questions:
        return tuple(decide(answers, policy) for policy in WorkPolicy)
    question, *others = questions
    branches: dict[Tree, list[str]] = {}
    for answer in QUESTIONS[question]:
        branches.setdefault(make_tree({**answers, question: answer}, others), []).append(answer)
    if len(branches) == 1:
        return next(iter(branches))
    return question, tuple((tuple(given), below) for below, given in branches.items())


def _is_leaf(tree: Tree) -> bool:
    return isinstance(tree[1], str)


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The answers on the path to each leaf, and its outcomes."""
    if _is_leaf(tree):
        yield path, tree
        return
    question, branches = tree
    for given, below in branches:
        yield from leaves(below, (*path, f"{question} {' or '.join(given)}"))


def _sentence(row: tuple[tuple[str, ...], Any]) -> str:
    path, outcomes = row
    listed = ", ".join(f"{policy} {outcome}" for policy, outcome in zip(WorkPolicy, outcomes, strict=True))
    return f"{', '.join(path)}: {listed}"


def _draw(drawing: Drawing, tree: Any, top: float, parent: tuple[float, float] | None) -> float:
    """Draw a tree from this row on, connected to its parent; return where it ends."""
    if _is_leaf(tree):
        middle = top + ROW / 2
        if parent:
            drawing.arrow(parent, (POLICIES_LEFT - 4, middle))
        for index, outcome in enumerate(tree):
            lines, x = outcome.split(", "), POLICIES_LEFT + index * (CELL + GAP)
            drawing.box(x, top, CELL, ROW, lines, colour=COLOURS[outcome])
        return top + ROW + GAP
    question, branches = tree
    x, width = COLUMNS[question], WIDTHS[question]
    bend = x - 12
    for given, below in branches:
        middle = top + ROW / 2
        if parent and middle == parent[1]:
            drawing.line(parent, (x, middle))
        elif parent:
            drawing.line((bend, parent[1]), (bend, middle), (x, middle))
        lines = [f"{each} or" for each in given[:-1]] + [given[-1]]
        drawing.box(x, top, width, ROW, lines, styles=["small", "small"])
        top = _draw(drawing, below, top, (x + width, middle))
    return top
