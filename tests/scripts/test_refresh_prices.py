"""The script that makes the list of prices, fed with a small wheel written by hand."""

import json
from datetime import date
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
from scripts.refresh_prices import clause, main

from accord.backends.prices import PriceList

DATA: Final = """
import datetime
from decimal import Decimal
from .types import *

others: list[str] = ['x']

providers: list[Provider] = [
    Provider(
        id='maker',
        name='Maker',
        api_pattern='https://api\\\\.maker\\\\.example',
        model_match=ClauseOr(or_=[ClauseStartsWith(starts_with='Maker-'), ClauseRegex(regex='^m\\\\d')]),
        models=[
            ModelInfo(
                id='Maker-1',
                match=ClauseAnd(and_=[ClauseContains(contains='maker'), ClauseEndsWith(ends_with='-1')]),
                prices=ModelPrice(
                    input_mtok=TieredPrices(base=Decimal('1.25'), tiers=[Tier(start=200000, price=Decimal('2.5'))]),
                    output_mtok=Decimal('10'),
                    cache_read_mtok=Decimal('0.125'),
                    web_searches_kcount=Decimal('35'),
                ),
            ),
            ModelInfo(
                id='maker-2',
                match=ClauseEquals(equals='maker-2'),
                prices=[
                    ConditionalPrice(prices=ModelPrice(input_mtok=Decimal('3'), output_mtok=Decimal('6'))),
                    ConditionalPrice(
                        constraint=StartDateConstraint(start_date=datetime.date(2026, 1, 2)),
                        prices=ModelPrice(input_mtok=Decimal('2'), output_mtok=Decimal('4')),
                    ),
                    ConditionalPrice(
                        constraint=TimeOfDateConstraint(
                            start_time=datetime.time(0, 30, tzinfo=datetime.UTC),
                            end_time=datetime.time(16, 30, tzinfo=datetime.UTC),
                        ),
                        prices=ModelPrice(input_mtok=Decimal('1'), output_mtok=Decimal('2')),
                    ),
                ],
            ),
            ModelInfo(id='embed', match=ClauseEquals(equals='embed'), prices=ModelPrice(input_mtok=Decimal('1'))),
            ModelInfo(
                id='search',
                match=ClauseEquals(equals='search'),
                prices=ModelPrice(input_mtok=Decimal('1'), output_mtok=Decimal('1'), requests_kcount=Decimal('5')),
            ),
        ],
    ),
    Provider(id='host', name='Host', api_pattern='https://host', fallback_model_providers=['maker'], models=[]),
]
"""
METADATA: Final = "Metadata-Version: 2.4\nName: genai-prices\nVersion: 9.9\nLicense-Expression: MIT\n"


def a_wheel(folder: Path, data: str = DATA, metadata: str = METADATA) -> Path:
    path = folder / "genai_prices-9.9-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        wheel.writestr("genai_prices/data.py", data)
        wheel.writestr("genai_prices-9.9.dist-info/METADATA", metadata)
        wheel.writestr("genai_prices-9.9.dist-info/licenses/LICENSE", "Copyright (c) Someone 2025\n")
    return path


def test_the_prices_of_a_wheel_are_written_with_their_source(tmp_path: Path):
    out = tmp_path / "out"
    assert main(["--wheel", str(a_wheel(tmp_path)), "--out", str(out)]) == 0
    content = (out / "prices.json").read_bytes()
    written: dict[str, Any] = json.loads(content)
    assert (written["source"]["name"], written["source"]["version"]) == ("genai-prices", "9.9")
    assert written["providers"]["maker"]["prices"] == [
        [
            "maker-1",
            {"and": ["~maker", "$-1"]},
            {"input": [1.25, [200000, 2.5]], "output": 10, "cached_input": 0.125},
        ],
        ["maker-2", "=maker-2", {"input": 3, "output": 6}, {"input": 2, "output": 4, "since": "2026-01-02"}],
        ["embed", "=embed"],
        ["search", "=search"],
    ]
    assert written["providers"]["maker"]["models"] == ["^maker-", "/^m\\d"]
    assert written["providers"]["host"] == {"address": "https://host", "models": None, "also": ["maker"], "prices": []}
    found = PriceList.read(content).find("maker-2", "https://host", date(2026, 5, 1))
    assert found is not None
    assert found.cost({"input_tokens": 10, "output_tokens": 1}) == 24
    page = (out / "PRICES.md").read_text("utf-8")
    assert "Copyright (c) Someone 2025" in page
    assert "WITHOUT WARRANTY" in page


def test_the_same_wheel_gives_the_same_files(tmp_path: Path):
    wheel = a_wheel(tmp_path)
    for name in ("one", "two"):
        assert main(["--wheel", str(wheel), "--out", str(tmp_path / name)]) == 0
    for file in ("prices.json", "PRICES.md"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.parametrize(
    ("data", "metadata", "words"),
    [
        ("providers = []", METADATA, "cannot be read"),
        ("providers: list = [", METADATA, "cannot be read"),
        (DATA.replace("ClauseEquals(equals", "ClauseNew(new"), METADATA, "an unknown kind of clause: ClauseNew"),
        (DATA, METADATA.replace("MIT", "GPL"), "expected MIT"),
    ],
)
def test_a_wheel_that_has_changed_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str, metadata: str, words: str
):
    out = tmp_path / "out"
    assert main(["--wheel", str(a_wheel(tmp_path, data, metadata)), "--out", str(out)]) == 1
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_clauses_are_compared_in_lower_case_except_expressions():
    assert clause({"call": "ClauseRegex", "regex": r"^A\D"}) == r"/^A\D"
    assert clause({"call": "ClauseContains", "contains": "AbC"}) == "~abc"
