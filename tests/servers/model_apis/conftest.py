"""One service for the tests of a module: they only send requests to it."""

from collections.abc import Iterator

import pytest

from tests.servers.model_apis.served import ServedModels, serve_models


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedModels]:
    with serve_models(tmp_path_factory.mktemp("models")) as running:
        yield running
