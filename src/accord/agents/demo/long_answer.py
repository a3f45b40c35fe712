"""A long answer in markdown, to see how a client copes with one."""

import re
from collections.abc import Iterator
from typing import Final

_WORD: Final = re.compile(r"\S+\s*")

BLOCKS: Final = (
    "## Section {}\n\n",
    (
        "Each section of this text is the same but for its number, which is {}. It has a paragraph with **strong** "
        "and *emphasised* words, some `code`, and a [link](https://commonmark.org), because a renderer has to find "
        "these while the text is still coming. A renderer that parses the whole answer again for every word takes a "
        "time that grows with the square of its length; one that goes on from what it has parsed does not.\n\n"
    ),
    "1. The first item of a list\n2. The second item, with `code`\n3. The third item, with **strong** words\n\n",
    "> A quotation of section {}, which is a block of its own.\n\n",
    "| Section | Content |\n|---|---|\n| {} | a table with one row |\n\n",
    "```python\nfor word in answer:\n    show(word)\n```\n\n",
)
"""One section; it repeats until there are enough words."""


def long_answer(words: int) -> Iterator[str]:
    """Yield an answer word by word; it ends after the block in which it has so many words."""
    count = section = 0
    while count < words:
        section += 1
        for block in BLOCKS:
            for word in _WORD.findall(block.format(section)):
                yield word
                count += 1
            if count >= words:
                return
