"""What a backend says it can do (ABP): a level for each capability. Silence is not a level; `core` decides it."""

from collections.abc import ItemsView, Iterator

from pydantic import ConfigDict, RootModel

from accord.wire.capability import CapabilityName
from accord.wire.message import DeferredBuild
from accord.wire.support import SupportLevel


class CapabilityManifest(DeferredBuild, RootModel[dict[CapabilityName, SupportLevel]]):
    """Capability names and how well each is supported; reads like a mapping."""

    model_config = ConfigDict(frozen=True)

    def __getitem__(self, name: str) -> SupportLevel:
        return self.root[name]

    def __contains__(self, name: object) -> bool:
        return name in self.root

    def __len__(self) -> int:
        return len(self.root)

    def __iter__(self) -> Iterator[str]:  # pyright: ignore[reportIncompatibleMethodOverride] - pydantic yields fields, a manifest yields names
        return iter(self.root)

    def get(self, name: str) -> SupportLevel | None:
        """The declared level, or None where the backend is silent."""
        return self.root.get(name)

    def items(self) -> ItemsView[str, SupportLevel]:
        """Every declared name with its level."""
        return self.root.items()
