"""Compare what a backend declares with what the work requires (ABP).

Only the manifest counts here. Whether Accord can emulate what is missing is decided in `plan.py`: "emulated by the
backend" and "emulated by Accord" are two labels that never mix.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from accord.wire.capability import ALIASES, capability_name, pascal_case
from accord.wire.manifest import (
    SATISFIED_BY,
    CapabilityManifest,
    CapabilityRequirement,
    CapabilityRequirements,
    CompatibilityReport,
    NegotiationResult,
    ReportedEmulated,
    ReportedNative,
    ReportedSupport,
    ReportedUnsupported,
    SupportLevel,
)
from accord.wire.message import as_model

NOT_DECLARED: Final = "not declared"

BELOW_NATIVE: Final[Mapping[str, str]] = MappingProxyType(
    {"unsupported": "declared unsupported", "emulated": "emulated is below native"}
)
"""Why a declared level is not enough."""

MANIFEST_EXAMPLE: Final = """{"streaming": "native"}"""
REQUIREMENTS_EXAMPLE: Final = """{"required": [{"capability": "streaming", "min_support": "native"}]}"""
RESULT_EXAMPLE: Final = """{"native": ["streaming"], "emulatable": [], "unsupported": []}"""
"""What a dict for each argument looks like, for the message of a wrong call."""

_NATIVE: Final = ReportedNative()
_UNSUPPORTED: Final = ReportedUnsupported()


def declared_level(manifest: CapabilityManifest, capability: str) -> SupportLevel | None:
    """The level declared for this capability, or else for its alias."""
    level = manifest.root.get(capability)
    if level is None and (alias := ALIASES.get(capability)):
        level = manifest.root.get(alias)
    return level


def check_capability(manifest: CapabilityManifest | Mapping[str, Any], capability: str) -> ReportedSupport:
    """How one capability is supported, as a compatibility report spells it."""
    name = capability_name(capability)
    level = declared_level(as_model(CapabilityManifest, manifest, "manifest", MANIFEST_EXAMPLE), name)
    if level is None or level.root == "unsupported":
        return _UNSUPPORTED
    if level.root == "native":
        return _NATIVE
    return _emulated(None if level.reason is None else f"restricted: {level.reason}")


def negotiate(
    manifest: CapabilityManifest | Mapping[str, Any], requirements: CapabilityRequirements | Mapping[str, Any]
) -> NegotiationResult:
    """Sort every required capability into native, emulatable or unsupported. The caller may change the result."""
    manifest = as_model(CapabilityManifest, manifest, "manifest", MANIFEST_EXAMPLE)
    requirements = as_model(CapabilityRequirements, requirements, "requirements", REQUIREMENTS_EXAMPLE)
    cached = _NEGOTIATED.get_or_compute(
        (manifest, requirements),
        (manifest.root, requirements.required),
        lambda: compare(manifest, requirements.required),
    )
    return NegotiationResult.model_construct(**{name: getattr(cached, name).copy() for name in cached.model_fields_set})


def generate_report(result: NegotiationResult | Mapping[str, Any]) -> CompatibilityReport:
    """Summarise a result: counts, one sentence and details. The caller may change the report."""
    result = as_model(NegotiationResult, result, "result", RESULT_EXAMPLE)
    contents = (result.native, result.emulatable, result.unsupported, result.strategies)
    # Every result is an object of its own, so reports are found by what results contain. Their sizes are a hash that
    # costs nothing; of two results with the same sizes, the later one is kept.
    cached = _REPORTED.get_or_compute((), contents, lambda: _report(result), key=(*map(len, contents),))
    return cached.model_copy(update={"details": cached.details.copy()})


def compare(manifest: CapabilityManifest, required: Iterable[CapabilityRequirement]) -> NegotiationResult:
    """What `negotiate` returns, without the cache: for requirements that do not come again."""
    native: list[str] = []
    emulatable: list[str] = []
    unsupported: list[str] = []
    reasons: dict[str, str] = {}
    strategies: dict[str, str] = {}
    declared = manifest.root
    for requirement in required:
        name = requirement.capability
        level = declared.get(name) or declared_level(manifest, name)
        offered = None if level is None else level.root
        if offered == "native":
            native.append(name)
        elif level is None or level.kind not in SATISFIED_BY[requirement.min_support]:
            unsupported.append(name)
            reasons[name] = shortfall_reason(level)
        elif offered == "emulated":
            emulatable.append(name)
        else:
            emulatable.append(name)
            strategies[name] = f"restricted: {level.reason}"
    additions: dict[str, Any] = {
        name: value for name, value in (("reasons", reasons), ("strategies", strategies)) if value
    }
    # Its names were validated; doing so again takes as long as comparing them.
    return NegotiationResult.model_construct(native=native, emulatable=emulatable, unsupported=unsupported, **additions)


def _report(result: NegotiationResult) -> CompatibilityReport:
    native, emulated, unsupported = len(result.native), len(result.emulatable), len(result.unsupported)
    verdict = "fully compatible" if result.is_compatible() else "incompatible"
    return CompatibilityReport.model_construct(
        compatible=result.is_compatible(),
        native_count=native,
        emulated_count=emulated,
        unsupported_count=unsupported,
        summary=f"{native} native, {emulated} emulatable, {unsupported} unsupported — {verdict}",
        details=[
            *[(_pascal(name), _NATIVE) for name in result.native],
            *[(_pascal(name), _emulated(result.strategies.get(name))) for name in result.emulatable],
            *[(_pascal(name), _UNSUPPORTED) for name in result.unsupported],
        ],
    )


def shortfall_reason(level: SupportLevel | None) -> str:
    """Why this level is not enough."""
    if level is None:
        return NOT_DECLARED
    return BELOW_NATIVE.get(level.kind) or f"restricted ({level.reason}) is below native"


@lru_cache(maxsize=1024)
def _emulated(strategy: str | None) -> ReportedEmulated:
    return ReportedEmulated(strategy="adapter" if strategy is None else strategy)


_pascal = lru_cache(maxsize=16_384)(pascal_case)
ResultT = TypeVar("ResultT")


class IdentityCache(Generic[ResultT]):
    """A bounded cache keyed by the identity of objects, which costs nothing to compute. The oldest entry goes first.

    An entry is valid while the objects still contain what they contained when it was stored.
    """

    __slots__ = ("_entries", "_size")

    def __init__(self, size: int = 256) -> None:
        self._size: Final = size
        # Each entry keeps its objects alive, so that no other object can get the same id.
        self._entries: Final[dict[Hashable, tuple[tuple[Any, ...], tuple[Any, ...], ResultT]]] = {}

    def get_or_compute(
        self,
        objects: tuple[Any, ...],
        contents: tuple[Any, ...],
        compute: Callable[[], ResultT],
        key: Hashable = None,
    ) -> ResultT:
        """Return the result for these objects and this key; `contents` are the mutable containers to compare."""
        full_key = (key, *map(id, objects))
        entry = self._entries.get(full_key)
        if entry is not None and entry[1] == contents:
            return entry[2]
        result = compute()
        self._entries[full_key] = (objects, tuple([content.copy() for content in contents]), result)
        if len(self._entries) > self._size:
            self._entries.pop(next(iter(self._entries)), None)
        return result


_NEGOTIATED: Final = IdentityCache[NegotiationResult]()
_REPORTED: Final = IdentityCache[CompatibilityReport]()
