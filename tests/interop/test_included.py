"""The models that come with the package can be used wherever a model is named: `tiny-en`, `small-en`."""

from pathlib import Path

import numpy as np
import pytest

import electra
from electra.artifacts.included import MODELS, included_model, included_names
from electra.commands.framework.main import main
from electra.foundation.errors import Note

LARGEST = 12_000_000  # bytes
FOUND = {
    ("tiny-en", "language-model"): 15,
    ("tiny-en", "auto"): 13,
    ("small-en", "discriminator"): 18,
    ("small-en", "auto"): 18,
}  # of the sentences below

# Written before the model was tried on them; the word in brackets is planted.
PLANTED = [
    "The farmer fed the cows and the [elephant] before breakfast.",
    "She poured a cup of hot [gravel] and added some milk.",
    "He opened the window to let in some fresh [iron].",
    "The train arrived at the station ten minutes [purple].",
    "The president signed the bill into [banana] last week.",
    "My brother plays the [window] in a small orchestra.",
    "They climbed the mountain and reached the [kitchen] before noon.",
    "The river flows through the city into the [sandwich].",
    "The doctor told him to take the [castle] twice a day.",
    "The capital of France is [seven].",
    "The teacher asked the students to open their [rivers] at page ten.",
    "In 1945 the war came to an [apple].",
    "The bird sat on the branch and sang a [hammer].",
    "He was born in London in the [potato] of 1902.",
    "The ship sailed across the [pencil] to America.",
    "Water freezes at zero [monkeys] celsius.",
    "The book was written by a famous English [carpet].",
    "She wore a long black [thunder] to the party.",
    "The king died and his eldest [spoon] took the throne.",
    "The company sold more than two million [cloudy] last year.",
]


def planted(sentence: str) -> tuple[str, str]:
    """The text without brackets, and the word in them."""
    return sentence.replace("[", "").replace("]", ""), sentence[sentence.index("[") + 1 : sentence.index("]")]


def test_the_included_models_are_complete_and_small() -> None:
    assert included_names() == ["small-en", "tiny-en"] and included_model("tiny-fr") is None
    for name in included_names():
        assert sum(path.stat().st_size for path in (MODELS / name).rglob("*") if path.is_file()) < LARGEST
        assert not [finding for finding in electra.verify(MODELS / name) if finding.problem]
        card = (MODELS / name / "discriminator" / "README.md").read_text()
        for words in ("CC BY-SA", "Wikipedia", "licence"):
            assert words in card


@pytest.mark.parametrize(("name", "scorer"), FOUND)
def test_inserted_wrong_words_are_detected(name: str, scorer: str) -> None:
    model, actual = electra.load(name), 0
    for sentence in PLANTED:
        text, word = planted(sentence)
        [detection] = model.detect([text], scorer=scorer, suggestions=0)  # type: ignore[arg-type]
        actual += word in [suspect.text.strip(".,") for suspect in detection.suspects(2)]
    assert actual >= FOUND[name, scorer]


def test_the_vectors_of_the_distilled_model_tell_topics_apart() -> None:
    guitar, instrument, market = electra.load("small-en").embed(
        ["A man is playing a guitar.", "Someone plays an instrument.", "The stock market fell on Friday."]
    )
    same, other = np.corrcoef(guitar, instrument)[0, 1], np.corrcoef(guitar, market)[0, 1]
    assert same > 0.5 > other + 0.3


def test_the_name_of_an_included_model_gives_all_its_networks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for network in ("discriminator", "generator", "language_model"):
        words = ["export", "tiny-en", "--network", network, "--out", str(tmp_path / "pair" / network)]
        assert main(words) == 0
    text = planted(PLANTED[0])[0]
    assert electra.load(tmp_path / "pair").detect(text) == electra.load("tiny-en").detect(text)
    capsys.readouterr()
    assert main(["verify", "tiny-en"]) == 0
    assert capsys.readouterr().out.count("ok      ") == 3


def test_a_local_folder_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    electra.export("tiny-en", out=tmp_path / "tiny-en")
    monkeypatch.chdir(tmp_path)
    with pytest.warns(Note, match="tiny-en"):
        found = electra.load("tiny-en")
    assert found.network("discriminator").folder.resolve() == tmp_path / "tiny-en"
