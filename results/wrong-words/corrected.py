"""How often is a word right that `electra detect --near --copies OUT --correct P` puts in another's place?

    python results/wrong-words/corrected.py tiny-en icdar2017-en.jsonl.gz

For each half of the texts (the first chose the rule), how many words are replaced from each sureness: by the
product of P(replaced) and the suggestion's probability, and by the latter alone.
"""

import gzip
import json
import sys

from aligned import align, bare, simplify

import electra


def marked(model: str, rows: list[dict[str, str]]) -> list[tuple[float, float, bool, bool]]:
    """P(replaced) and P(first suggestion) of each marked word; whether it is wrong, and the suggestion right."""
    detector, found = electra.load(model).detector(), []
    texts = [row["ocr"].replace("\n", " ") for row in rows]
    for row, text, detection in zip(rows, texts, detector(texts, detector.marking().threshold, 3, True), strict=True):
        words = align(text, row["gold"].replace("\n", " "))
        for word, suggestions in zip(detection.marked, detection.suggestions, strict=True):
            hit = next((each for each in words if each[0] <= word.start < each[1]), None)
            if hit is not None and any(map(str.isalnum, word.text)):
                best, p = (suggestions[0].token, suggestions[0].p) if suggestions else ("", 0.0)
                is_right = bare(simplify(best)) == bare(simplify(hit[2]))
                found.append((word.p_replaced, p, hit[4] != "correct", is_right))
    return found


if __name__ == "__main__":
    rows = [json.loads(line) for line in gzip.open(sys.argv[2])]
    for half in (0, 1):
        found = marked(sys.argv[1], rows[half::2])
        print(f"half {half + 1}: {len(found)} marked, {sum(each[2] for each in found)} of them wrong")
        for name, is_product in (("product", True), ("suggestion", False)):
            for sure in (0.5, 0.8, 0.9, 0.95):
                of = [each for each in found if each[1] * (each[0] if is_product else 1) >= sure]
                right, spoiled = (sum(each[3] for each in of), sum(not each[2] for each in of))
                print(f"{name} >= {sure}: {len(of)} replaced, {right} right, {spoiled} were correct before")
