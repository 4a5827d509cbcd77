"""How often an inserted wrong word is the most suspicious word of its sentence, or one of the two most suspicious.

python inserted.py MODEL [MODEL@SCORER ...]    SCORER: discriminator, language-model
"""

import re
import sys
import tomllib
from pathlib import Path

import electra

SENTENCES = tomllib.loads(Path(__file__).with_name("inserted.toml").read_text())["sentences"].splitlines()

for argument in sys.argv[1:]:
    name, _, scorer = argument.partition("@")
    model = electra.load(name)
    ranks = []
    for marked in SENTENCES:
        [wrong] = re.findall(r"\[(.*?)\]", marked)
        [found] = model.detect([re.sub(r"[\[\]]", "", marked)], scorer=scorer or "auto")  # type: ignore[arg-type]
        words = sorted(found.words, key=lambda word: -word.p_replaced)
        ranks.append([word.text.lower() for word in words].index(wrong.lower()))
    first, two = (sum(rank < n for rank in ranks) for n in (1, 2))
    print(f"{argument}: first {first}, first or second {two}, of {len(ranks)}")
