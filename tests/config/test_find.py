"""Which configuration file is read."""

from pathlib import Path

import pytest

from accord.config import find_config, load_config
from accord.config.read import find_misspelled_variables
from accord.errors import AccordError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "accord.toml").write_text('policy = "strict"')
    (tmp_path / "other.toml").write_bytes(b'\xef\xbb\xbfpolicy = "permissive"\r\n')
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    return tmp_path


def test_the_named_file_comes_before_the_variable_and_the_usual_file(folder: Path):
    usual, other = str(folder / "accord.toml"), str(folder / "other.toml")
    assert find_config(other, {"ACCORD_CONFIG": usual}, folder) == other
    assert find_config(None, {"ACCORD_CONFIG": other}, folder) == other
    assert find_config(None, {"ACCORD_CONFIG": ""}, folder) == usual
    assert find_config(None, {}, folder / "nowhere") is None


def test_the_usual_file_is_named_without_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    assert find_config(None, {}, Path()) == "accord.toml"


def test_a_byte_order_mark_is_accepted(folder: Path):
    assert load_config(str(folder / "other.toml"), environ={}).config.policy == "permissive"


def test_without_a_file_there_are_the_defaults(tmp_path: Path):
    assert load_config(environ={}, folder=tmp_path).file is None


def test_a_device_can_be_named_and_the_null_device_is_the_empty_configuration(folder: Path):
    loaded = load_config("/dev/null", environ={}, folder=folder)
    assert loaded.config == load_config(environ={}, folder=folder / "nowhere").config


MISTAKES: list[tuple[str | None, dict[str, str], str]] = [
    ("none.toml", {}, "{}/none.toml: No such file; `accord config init {}/none.toml` writes one"),
    (
        None,
        {"ACCORD_CONFIG": "{}/none.toml"},
        "env ACCORD_CONFIG: {}/none.toml: No such file; `accord config init {}/none.toml` writes one",
    ),
    ("latin.toml", {}, "{}/latin.toml: byte 2: expected UTF-8 text"),
]


@pytest.mark.parametrize(("name", "environ", "message"), MISTAKES)
def test_a_file_that_cannot_be_read_is_named(folder: Path, name: str | None, environ: dict[str, str], message: str):
    named = {key: value.replace("{}", str(folder)) for key, value in environ.items()}
    with pytest.raises(AccordError) as raised:
        load_config(None if name is None else str(folder / name), environ=named, folder=folder)
    assert str(raised.value) == message.replace("{}", str(folder))


def test_paths_are_relative_to_the_file(folder: Path):
    assert load_config(str(folder / "accord.toml"), environ={}).path_of("a/b.json") == folder / "a" / "b.json"
    assert load_config(environ={}, folder=folder / "nowhere").path_of("a.json") == Path("a.json")


def test_a_misspelled_variable_is_reported():
    environ = {"ACCORD_POLCY": "x", "ACCORD_POLICY": "strict", "ACCORD_KEY_LOCAL": "k", "ACCORD_ELSE": "x", "PATH": "x"}
    assert find_misspelled_variables(environ) == [
        "env ACCORD_POLCY: this variable is not used; did you mean ACCORD_POLICY?"
    ]


def test_a_misspelled_variable_with_an_address_is_reported():
    assert find_misspelled_variables({"ACCORD_QUEUE_URI": "x", "ACCORD_QUEUE_URL": "x"}) == [
        "env ACCORD_QUEUE_URI: this variable is not used; did you mean ACCORD_QUEUE_URL?"
    ]
