"""Thresholds by false alarms, the combined scorer, suggestions, and the files of `electra detect`."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import electra
from electra.artifacts.included import MODELS
from electra.artifacts.model_files import DETECTION
from electra.commands.framework.main import main
from electra.finetuning.predict import open_predictor
from electra.foundation.errors import ConfigError, DataError, ModelError, Note
from electra.inference.detection import tokenize
from electra.inference.detector import FEATURES, Curve, Marking, measure
from electra.inference.spellings import FAR, NEARNESS, Spellings

TEXT = "The town council met to discuss the repair of the old stone hridge near the mill."
CLEAN = ["The king died in London.", "A river flows slowly to the sea.", "She opened the letter and read it."]


def test_both_adds_up_what_the_networks_and_the_word_say() -> None:
    detector = electra.load("tiny-en").detector("both")
    [detection] = detector([TEXT], 0.5)
    [(starts, rows)] = detector.words([TEXT])
    words = [word for word in detection.words if word.text != "."]
    assert starts == [word.start for word in words] and rows.shape == (len(words), len(FEATURES))
    expected = 1 / (1 + np.exp(-rows @ np.array(detector.calibration.weights)))
    assert [word.p_replaced for word in words] == pytest.approx(expected.tolist())
    assert detection.words[-1].p_replaced == 0  # punctuation
    alone = electra.load("tiny-en").detect(TEXT, scorer="discriminator")[0].words
    odds = np.array([np.log(word.p_replaced / (1 - word.p_replaced)) for word in alone if word.text != "."])
    assert rows[:, 1] == pytest.approx(odds, abs=1e-6)
    assert rows[[0, 12], 3].tolist() == [0, 1] and rows[12, 5] == pytest.approx(np.log(6))


def test_near_spellings_are_judged_in_the_words_place() -> None:
    loaded = electra.load("tiny-en").language_model
    [(_, rows)] = electra.load("tiny-en").detector("both").words([TEXT])
    tokens, specials = tokenize(loaded.tokenizer, TEXT), loaded.tokenizer.specials
    spellings = Spellings(loaded.tokenizer)
    words = list(tokens.word_tokens())
    for number, masked in ((12, [12]), (4, range(4, len(words), 6))):  # hridge: one mask for its tokens
        ids = [specials.cls]
        for i, word in enumerate(words):
            masks = [specials.mask] * (1 if i == 12 else len(word))
            ids += masks if i in masked else tokens.ids[word].tolist()
        at = 1 + sum(map(len, words[:number]))
        with torch.no_grad():
            log_p = loaded.logits(torch.tensor([[*ids, specials.sep]]))[0, at].double().log_softmax(-1)
        near = spellings.near(tokens.part(words[number]))
        weights = [float(log_p[spellings.ids[each]]) + NEARNESS[edits] for each, edits in near.items()]
        assert near and rows[number, 6] == pytest.approx(np.log(np.exp([*weights, FAR]).sum()), abs=1e-4)


@pytest.mark.parametrize("name", ["tiny-en", "small-en"])
def test_the_first_example_is_marked_by_default(name: str) -> None:
    [found] = electra.detect(name, "They walked along the riyer to the old church.")
    assert [word.text for word in found.marked] == ["riyer"] and found.suggestions[0][0].token == "river"


def test_a_record_of_the_last_version_has_no_near_spellings(tmp_path: Path) -> None:
    shutil.copytree(MODELS / "tiny-en", tmp_path / "copy")
    weights = [-7.9789, 0.7063, 3.7647, 1.0842, -0.5421, -1.102]
    record = {"scorer": "both", "weights": weights, "curves": {}}
    (tmp_path / "copy" / "discriminator" / DETECTION).write_text(json.dumps(record))
    detector = electra.load(tmp_path / "copy").detector()
    [(_, rows)], [found] = detector.words([TEXT]), detector([TEXT], 0.5)
    expected = 1 / (1 + np.exp(-rows[:, :6] @ np.array(weights)))
    assert [word.p_replaced for word in found.words if word.text != "."] == pytest.approx(expected.tolist())


def test_the_language_model_may_have_another_tokenizer() -> None:
    detector = electra.load("small-en").detector()
    assert detector.scorer == "both" and detector.language_model is not None
    assert detector.language_model.tokenizer.digest != detector.main.tokenizer.digest
    [detection] = electra.load("small-en").detect(TEXT, 0.2, near=True)
    [worst] = detection.suspects(1)
    found = dict(zip(detection.marked, detection.suggestions, strict=True))[worst]
    assert worst.text == "hridge" and found[0].token == "bridge"


def test_suggestions_are_the_models_words_and_near_ones_on_request() -> None:
    model = electra.load("tiny-en")
    [near], [free] = (model.detect(TEXT, suggestions=5, near=near)[0].suggestions for near in (True, False))
    loaded = model.language_model
    edits = Spellings(loaded.tokenizer).near("hridge")
    assert near and {each.token for each in near} <= set(edits)
    assert 0 < sum(each.p for each in free) <= 1 and [*free] == sorted(free, key=lambda each: -each.p)
    tokens, specials = tokenize(loaded.tokenizer, TEXT), loaded.tokenizer.specials
    at = next(i for i, (start, _) in enumerate(tokens.offsets) if TEXT[start:].startswith("hridge"))
    end = next(i for i in range(at, len(tokens.ids)) if tokens.offsets[i][0] > TEXT.index("hridge") + 5)
    ids = [specials.cls, *tokens.ids[:at], specials.mask, *tokens.ids[end:], specials.sep]
    with torch.no_grad():
        log_p = loaded.logits(torch.tensor([ids]))[0, at + 1].double().log_softmax(-1)
    one = [loaded.tokenizer.token_to_id(each.token) for each in near]
    pairs = [(a, b, near[i].p / near[j].p) for i, a in enumerate(one) for j, b in enumerate(one) if a and b]
    same = [edits[each.token] for each in near]
    for (a, b, ratio), (x, y) in zip(pairs, ((x, y) for x in same for y in same), strict=True):
        if x == y:
            assert ratio == pytest.approx(float((log_p[a] - log_p[b]).exp()), rel=1e-3)


def test_clean_text_sets_the_share_of_its_words_that_is_marked() -> None:
    detector = electra.load("tiny-en").detector("discriminator")
    clean = [f"{a} {b}" for a in CLEAN for b in CLEAN] * 3
    marking = detector.marking(false_alarms=0.05, clean=clean)
    scores = [word.p_replaced for found in detector(clean, 1.0) for word in found.words if word.text != "."]
    assert 0 < np.mean(np.array(scores) >= marking.threshold) <= 0.2  # many are equal
    assert np.mean(np.array(scores) > marking.threshold) < 0.05
    assert marking.false_alarms == 0.05 and 0 < (marking.recall or 0) < 1
    with pytest.raises(DataError, match="1,000"):
        detector.marking(clean=CLEAN)
    dirty = detector.marking(None, 0.05, [" ".join(sorted(text.split())) for text in clean])
    assert "errors" in dirty.origin


def test_a_text_of_another_language_is_noted() -> None:
    german = "Die Katze schl\u00e4ft auf dem Sofa, der Hund liegt unter dem Tisch in der K\u00fcche. " * 2
    with pytest.warns(Note, match="language"):
        electra.detect("tiny-en", german)
    electra.detect("tiny-en", [TEXT, *CLEAN])


def test_a_marking_says_what_the_record_says() -> None:
    detector = electra.load("small-en").detector("both")
    curve = detector.calibration.curves["both"]
    for rate, threshold, recall in zip(curve.false_alarms, curve.thresholds, curve.recall, strict=True):
        found = detector.marking(false_alarms=rate)
        assert (found.threshold, found.recall) == pytest.approx((threshold, recall))
    assert Marking(0.5, "", 0.01, 0.5).precision(0.03) == pytest.approx(0.015 / (0.015 + 0.0097))
    assert Marking(0.5, "").precision(0.03) is None and Curve().at("recall", 0.1, "thresholds") is None
    for wrong in (0, 1, -0.1):
        with pytest.raises(ConfigError):
            detector.marking(false_alarms=wrong)


@pytest.mark.parametrize("record", ["{", "[]", '{"curves": 3}', '{"curves": {}, "weights": [1]}', '{"x": 1}'])
def test_a_broken_record_is_one_line(tmp_path: Path, record: str) -> None:
    shutil.copytree(MODELS / "tiny-en" / "discriminator", tmp_path / "copy")
    (tmp_path / "copy" / DETECTION).write_text(record)
    with pytest.raises(ModelError, match=DETECTION):
        electra.load(tmp_path / "copy").detect("a text")
    (tmp_path / "copy" / DETECTION).unlink()
    old = electra.load(tmp_path / "copy")
    assert old.detector().marking().threshold == old.network("discriminator").threshold
    assert old.detector().marking().false_alarms is None


def test_detection_is_measured_on_text_that_is_long_enough() -> None:
    detector = electra.load("tiny-en").detector("both")
    assert measure(detector, CLEAN, "three sentences") is None
    texts = [f"{a} {b}" for a in CLEAN for b in CLEAN] * 3
    found = measure(detector, texts, "few sentences")
    assert found is not None and found.words == 3 * 3 * 38 and found.scorer == "both"
    assert set(found.curves) == {"discriminator", "language-model", "both"}
    scores = [word.p_replaced for each in detector(texts, 1) for word in each.words if word.text.isalnum()]
    both = found.curves["both"]
    for rate, threshold in zip(both.false_alarms, both.thresholds, strict=True):
        assert rate * found.words >= 10 and np.mean(np.array(scores) >= threshold - 1e-9) >= rate - 0.01
        assert np.mean(np.array(scores) > threshold + 1e-9) <= rate


def test_show_fills_masks(capsys: pytest.CaptureFixture[str]) -> None:
    rows = electra.show("tiny-en", "The [MASK] of the king and his [MASK].")
    assert [row["[MASK]"] for row in rows] == [1] * 5 + [2] * 5 and all(0 < row["P"] < 1 for row in rows)


@pytest.mark.parametrize("text", ["The band released its first album.", "Brot schlaft auf dem Sofa", "a"])
def test_show_counts_what_is_found_and_what_is_falsely_marked(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "tiny-en", text, "--allow-unknown"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    found, replaced, alarms, original = (int(number) for number in re.findall(r"\d+", said)[:4])
    threshold = electra.load("tiny-en").network("discriminator").threshold
    rows = electra.show("tiny-en", text, allow_unknown=True)
    scored = [row for row in rows if row["P(replaced)"] is not None]
    marked = [row["Label"] for row in scored if row["P(replaced)"] >= threshold]
    assert (found, alarms) == (marked.count("replaced"), len(marked) - marked.count("replaced"))
    assert replaced + original == len(scored)


def test_files_are_written_with_the_columns_of_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out"
    source.write_text(f'id,text,score\n=7,"{TEXT}",good\n8,=The mill.,bad\n')
    [detection, _] = electra.detect("tiny-en", source)
    threshold = str(sum(word.p_replaced for word in detection.suspects(2)) / 2)
    for suffix in (".csv", ".jsonl", ".txt"):
        options = ["--out", f"{out}{suffix}", "--threshold", threshold]
        assert main(["detect", "tiny-en", str(source), *options]) == 0
    assert "2 texts in" in capsys.readouterr().out
    with open(f"{out}.csv", newline="") as file:
        first, second = csv.DictReader(file)
    assert list(first) == ["id", "text", "score (input)", "file", "line", "score", "marked", "words"]
    marked = TEXT.replace("hridge", "**hridge**")
    assert (first["id"], first["score (input)"], first["marked"]) == ("=7", "good", marked)
    assert first["words"].startswith("hridge (") and second["words"] == ""
    p = np.array([word.p_replaced for word in detection.words])
    assert float(first["score"]) == pytest.approx(-np.log(1 - p).mean(), rel=1e-3)
    assert second["marked"] == "'=The mill." and second["line"] == "3"
    lines = [json.loads(line) for line in Path(f"{out}.jsonl").read_text().splitlines()]
    assert [(each["word"], each["column"]) for each in lines[0]["words"]] == [("hridge", 61)]
    assert Path(f"{out}.txt").read_text() == f"{marked}\n=The mill.\n"
    source.with_suffix(".jsonl").write_text('{"text": "A mill.", "n": 1}\n{"text": "A mill."}\n')
    electra.detect("tiny-en", source.with_suffix(".jsonl"), out=f"{out}.csv")
    assert [line.split(",")[1] for line in Path(f"{out}.csv").read_text().splitlines()] == ["n", "1", ""]


def test_the_most_suspicious_words_have_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_text(f"{CLEAN[0]}\n\n{TEXT}\n")
    command = ["detect", "tiny-en", str(tmp_path / "in.txt"), "--top", "2"]
    assert main(command) == 0 and "hridge" in capsys.readouterr().out.splitlines()[1]
    assert main([*command, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    every = [word for each in electra.detect("tiny-en", [CLEAN[0], TEXT]) for word in each.words]
    worst = sorted(every, key=lambda word: -word.p_replaced)[:2]
    assert [(row["word"], row["column"] - 1) for row in rows] == [(word.text, word.start) for word in worst]
    assert [rows[0][name] for name in ("word", "line", "column")] == ["hridge", 3, 61]
    assert rows[0]["text"] == "of the old stone hridge near the mill."
    assert main([*command, "--out", str(tmp_path / "out.csv")]) == 0
    _, first, *_ = (tmp_path / "out.csv").read_text().splitlines()
    assert first.startswith(f"{tmp_path / 'in.txt'},3,hridge,61,")


@pytest.mark.parametrize(
    "options",
    [
        ["--out", "x.pdf"],
        ["--out", "in.csv"],
        ["--out", "in.csv/x.csv"],
        ["--out", "x.csv", "--top", "0"],
        ["--out", "x.csv", "--text-column", "body"],
        ["--out", "x.csv", "--false-alarms", "2"],
        ["--by", "line"],
        ["--by", "row"],
        ["--budget", "30%"],
        ["--by", "word", "--budget", "30%"],
        *[["--by", "text", "--budget", share] for share in ("0", "abc", "101%")],
        ["--by", "text", "--out", "x.txt"],
        ["--copies", "x"],
        ["--correct", "90%"],
        ["in.txt", "--by", "page"],
        ["in.txt", "--by", "text", "--out", "in.csv"],
        ["two.txt", "--by", "text"],
    ],
)
def test_what_cannot_be_written_is_refused_in_one_line(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("text\nThe mill.\n")
    Path("in.txt").write_text("The mill.\n")
    assert main(["detect", "tiny-en", "in.csv", *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(map(str, Path().iterdir())) == ["in.csv", "in.txt"]
    assert Path("in.csv").read_text() == "text\nThe mill.\n"


def test_a_tagger_of_wrong_words_scores_by_its_probability(tmp_path: Path) -> None:
    blocks = ("\n".join(f"{word} {'i' if len(word) % 2 else 'c'}" for word in text.split()) for text in CLEAN)
    (tmp_path / "ged.conll").write_text("\n\n".join([*blocks] * 8) + "\n")
    folder = tmp_path / "tuned"
    electra.finetune("tiny-en", task="ged", data=tmp_path / "ged.conll", out=folder, head="frozen")
    with pytest.warns(Note, match="1 of 4"):
        [found, empty, _, _] = electra.detect(folder, [TEXT, "\u200b", CLEAN[0], CLEAN[1]])
    [rows] = open_predictor(str(folder)).texts([TEXT], scores=True).by_example()
    bare = [row["word"].strip(".") or "." for row in rows]
    starts = [row["start"] for row in rows]
    assert [word[:3] for word in found.words] == [(w, s, s + len(w)) for w, s in zip(bare, starts, strict=True)]
    assert [word.p_replaced for word in found.words] == pytest.approx([row["p(i)"] for row in rows])
    assert found.threshold == 0.5 and empty.words == ()
    [marked] = electra.detect(folder, TEXT, threshold=0.0, near=True)
    suggested = dict(zip((word.text for word in marked.marked), marked.suggestions, strict=True))
    assert suggested["hridge"][0].token == "bridge"
    assert not electra.detect(folder, TEXT, suggestions=0)[0].suggestions
    [marked] = electra.detect(folder, [CLEAN[1]], clean=[CLEAN[1]] * 20, false_alarms=0.2)
    assert marked.suspects(1)[0] in marked.marked and len(marked.marked) <= 2
    p = [0.5 + n / 8000 for n in range(4000)]
    dev = [{"gold": "c", "predicted": "i" if n % 2 else "c", "probability": p[n]} for n in range(4000)]
    (folder / "dev.jsonl").write_text("\n".join(map(json.dumps, dev)))
    with pytest.MonkeyPatch.context() as patch:  # the user's own folder, which the shell expands
        patch.setenv("HOME", str(tmp_path))
        [marked] = electra.detect("~/tuned", [TEXT])
    wrong = sorted(row["probability"] if row["predicted"] == "i" else 1 - row["probability"] for row in dev)
    assert np.mean(np.array(wrong) >= marked.threshold) == 0.01
    record = folder / "finetune.json"
    record.write_text(record.read_text().replace('"tiny-en"', '"runs/gone"'))
    with pytest.warns(Note, match="runs/gone"):
        electra.detect(folder, TEXT)
    record.write_text(record.read_text().replace('"task": "ged"', '"task": "ner"'))
    with pytest.raises(ModelError, match="predict"):
        electra.detect(folder, TEXT)
