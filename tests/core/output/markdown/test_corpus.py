"""150 real answers of language models: the words of markdown-it-py, and the same output for every cut."""

import pytest

from accord.core.output.markdown import Profile, strip
from tests.core.output.markdown.feeding import cut, feed_all, read_lines
from tests.core.output.markdown.oracle import oracle_words, words

ANSWERS = [answer["markdown"] for answer in read_lines("answers.jsonl")]
MULTIPLIES = {143}
"""`2*(2*M(n – 2)`: CommonMark parses emphasis there and loses the operator."""


def test_99_percent_of_the_answers_have_the_words_of_markdown_it() -> None:
    differing = {index for index, answer in enumerate(ANSWERS) if words(strip(answer)) != oracle_words(answer)}
    assert differing == MULTIPLIES
    assert len(differing) <= len(ANSWERS) / 100


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_do_not_change_the_output(profile: Profile, seed: int) -> None:
    for answer in ANSWERS:
        assert feed_all(cut(answer, seed), profile) == strip(answer, profile)


@pytest.mark.parametrize("profile", Profile)
def test_cutting_after_every_character_does_not_change_the_output(profile: Profile) -> None:
    for answer in ANSWERS:
        assert feed_all(answer, profile) == strip(answer, profile)
