"""150 real answers of language models: the same words as the oracle, the same output for every cut."""

import pytest

from accord.core.output.markdown import Profile, strip
from tests.core.output.markdown.feeding import cut, feed_all, read_lines
from tests.core.output.markdown.oracle import oracle_words, words

ANSWERS = [answer["markdown"] for answer in read_lines("answers.jsonl")]
MULTIPLIES = {143}
"""`2*(2*M(n – 2)`: CommonMark reads emphasis there and loses the operator."""


def test_ninety_nine_answers_in_a_hundred_have_the_oracles_words() -> None:
    differing = {index for index, answer in enumerate(ANSWERS) if words(strip(answer)) != oracle_words(answer)}
    assert differing == MULTIPLIES
    assert len(differing) <= len(ANSWERS) / 100


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("seed", range(3))
def test_random_cuts_never_show(profile: Profile, seed: int) -> None:
    for answer in ANSWERS:
        assert feed_all(cut(answer, seed), profile) == strip(answer, profile)


@pytest.mark.parametrize("profile", Profile)
def test_cutting_between_all_characters_never_shows(profile: Profile) -> None:
    for answer in ANSWERS:
        assert feed_all(answer, profile) == strip(answer, profile)
