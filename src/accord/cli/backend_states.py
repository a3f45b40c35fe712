"""Looks at every backend at once: whether it can be reached, whose word its manifest is, what nobody knows of it."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from accord.cli.assemble import Assembled, build_backends
from accord.cli.loop import event_loop_runner
from accord.cli.terminal import Cell, Console, styled
from accord.config import Loaded
from accord.core.derive import BECAUSE, PARAMETERS
from accord.errors import BackendError
from accord.ports import KnownBackend, LivingBackend, Testimony
from accord.wire.capability import ALIASES, Capability

ASKED_FOR: Final = tuple(dict.fromkeys(map(str, (*BECAUSE, Capability.SYSTEM_MESSAGE, *PARAMETERS.values()))))
"""What work can need of a backend; what nobody says of these is unknown."""
WHOSE: Final = ("operator", "probe", "endpoint", "facts", "API")
NONE: Final = (
    "No backend is configured, so the built-in echo answers: it repeats what it is told. Add one to accord.toml "
    "(`accord config init` writes a file to begin with), such as:\n\n"
    '[[backends]]\nname = "local"\nkind = "openai"\nmodel = "llama3.2"\nbase_url = "http://localhost:11434/v1"'
)


@dataclass(frozen=True, slots=True)
class State:
    """One backend as it was found."""

    name: str
    kind: str
    model: str | None
    why_not: str | None
    sources: dict[str, int]
    unknown: list[str]
    warnings: tuple[str, ...]

    def told(self) -> dict[str, Any]:
        """The same for a program."""
        found = {"ok": self.why_not is None, "why_not": self.why_not, "sources": self.sources, "unknown": self.unknown}
        return {"name": self.name, "kind": self.kind, "model": self.model, **found, "warnings": list(self.warnings)}


def show_backends(loaded: Loaded, timeout_s: float, *, as_json: bool) -> bool:
    """Print how each backend was found; gives whether all of them can be reached."""
    assembled = build_backends(loaded, warns=False)
    states: list[State] = event_loop_runner()(_look_at_all(assembled, timeout_s))
    if as_json:
        print(json.dumps({"backends": [state.told() for state in states]}, indent=2, ensure_ascii=False))
    elif states:
        _print_table(states)
    else:
        print(NONE)
    return not any(state.why_not for state in states)


async def _look_at_all(assembled: Sequence[Assembled], timeout_s: float) -> list[State]:
    return list(await asyncio.gather(*(_look_at(each, timeout_s) for each in assembled)))


async def _look_at(assembled: Assembled, timeout_s: float) -> State:
    backend, why_not = assembled.backend, None
    try:
        async with asyncio.timeout(timeout_s):
            await backend.probe()
            if isinstance(backend, LivingBackend):
                await backend.discover()
    except BackendError as error:
        why_not = error.message.removeprefix(f"{backend.name}: ")
    except TimeoutError:
        why_not = f"no answer within {timeout_s:g} s"
    finally:
        if isinstance(backend, LivingBackend):
            await backend.aclose()
    config, spoken_of = assembled.config, set(backend.manifest)
    unknown = [name for name in ASKED_FOR if not {name, ALIASES.get(name, name)} & spoken_of]
    return State(
        config.name, config.kind, config.model, why_not, _sources(assembled), unknown, assembled.known.warnings
    )


def _sources(assembled: Assembled) -> dict[str, int]:
    backend = assembled.backend
    if not isinstance(backend, KnownBackend):
        counted = {name: name in assembled.known.declared for name in backend.manifest}
        words = ["operator" if is_declared else "endpoint" for is_declared in counted.values()]
    else:
        api = getattr(getattr(backend, "api", None), "name", None)
        words = [_whose(name, said, assembled, api) for name, said in backend.evidence.items()]
    count = Counter(words)
    return {whose: count[whose] for whose in WHOSE if count[whose]}


def _whose(name: str, said: Testimony, assembled: Assembled, api: str | None) -> str:
    known = assembled.known
    layers = {"operator": known.declared, "probe": known.seen, "facts": known.facts}
    return next(
        (whose for whose, layer in layers.items() if layer.get(name) == said),
        "API" if said.source == api else "endpoint",
    )


def _print_table(states: Sequence[State]) -> None:
    rows: list[tuple[Cell, ...]] = []
    for state in states:
        found = styled("ok", "green") if state.why_not is None else styled(state.why_not, "red")
        sources = ", ".join(f"{whose} {count}" for whose, count in state.sources.items()) or "nobody"
        unknown = styled(", ".join(state.unknown) or "nothing", "yellow" if state.unknown else "")
        rows.append(
            (styled(state.name), styled(state.kind), styled(state.model or "-"), found, styled(sources), unknown)
        )
    console = Console()
    console.print_table(("name", "kind", "model", "state", "known from", "unknown"), rows)
    for state in states:
        for warning in state.warnings:
            console.print(warning, style="yellow", soft_wrap=True)
