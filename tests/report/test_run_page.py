"""The page of a run: its numbers are the files', whatever state the run is in, and text is never markup."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_run import AUDIT, event, make_run, write_metrics

from electra.commands.framework.main import main
from electra.pages.metric_titles import METRICS
from electra.pages.run_page import read_run, verdict, write_page

VOID = {"meta", "link", "br"}


class Html(HTMLParser):
    """Parses strictly: every tag is closed, in order. Keeps tags, text and the numbers of <data> elements."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text, self.numbers, self.html = "", list[float](), path.read_text(encoding="utf-8")
        self.feed(self.html)
        self.close()
        assert not self.open
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.numbers += [float(dict(attrs)["value"] or "")] if tag == "data" else []
        self.open += [tag] if tag not in VOID else []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if self.open and self.open[-1] in ("style", "text") else data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "first-light", steps=600, eval_every=100)


@pytest.fixture(scope="module")
def made(run: Path) -> Html:
    return Html(write_page(run))


def test_the_page_stands_alone_and_is_the_same_again(run: Path, made: Html) -> None:
    links = [value or "" for _, each in made.tags for name, value in each.items() if name.endswith("href")]
    assert links and all(link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"url\((?!#)|@import|<script|<metadata|<!--|#010203", made.html)
    assert "default-src 'none'; style-src 'unsafe-inline'" in made.html and "light-dark(" in made.html
    names = [each["id"] for _, each in made.tags if "id" in each]
    assert len(names) == len(set(names)) and {link[1:] for link in links if link[0] == "#"} <= set(names)
    assert set(re.findall(r"url\(#([^)]+)\)", made.html)) <= set(names)
    before = {path: path.read_bytes() for path in run.iterdir()}
    write_page(run)
    after = {path: path.read_bytes() for path in run.iterdir()}
    assert after == before, "the same bytes, and no record changed"


def test_its_numbers_are_those_of_the_files(run: Path, made: Html) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    final = [row for row in rows if row["kind"] == "eval"][-1]
    speeds = sorted(row["tokens_per_s"] for row in rows if row["kind"] == "train")
    expected = {*final["metrics"].values(), *(final[key] for key in ("step", "tokens", "flops", "seconds"))}
    assert expected <= set(made.numbers)
    assert made.numbers.count(final["metrics"]["base_rate"]) == 2, "also as the baseline of precision"
    others = {0.0, 0.5, (speeds[29] + speeds[30]) / 2}
    assert set(made.numbers) <= expected | others, "nothing else is a number"
    shown = ["budget-tiny", "of 600", "1e-06", "2.13.0+cpu", str(AUDIT["documents_train"]), "P(replaced)"]
    shown.append("masks 0.4 of the tokens, evaluation 0.15")
    assert not [word for word in shown if word not in made.text]
    assert made.text.index("times in 100") < made.text.index("Held-out metrics") < made.text.index("chef")
    assert "electra pretrain --recipe budget-tiny" in made.text and made.html.count("<figure>") == 11
    assert all(METRICS[key]["meaning"] in made.text for key in final["metrics"])


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = "</title></td><script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    run = make_run(tmp_path / "<script>$x$ {{ 7*7 }}", steps=200, eval_every=50)
    (run / "run.toml").write_text(f"[model]\nsize = {json.dumps(evil)}\n[environment]\n{json.dumps(evil)} = 1\n")
    (run / "audit.json").write_text(json.dumps({evil: evil, "n": [evil, {evil: 1}], "huge": 10**400}))
    row = {"original": evil, "masked": evil, "generated": "\ud800", "label": evil, "p_replaced": 1e9}
    (run / "examples.json").write_text(json.dumps([{"rows": [row, {**row, "label": "replaced"}, 3]}, 7]))
    with open(run / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(event(200, name, evil)) + "\n" for name in ("collapse", evil))
        losses = {"../escaped": 1.0, evil: 2.0, "_hidden": 3.0}
        file.write(json.dumps({"kind": "train", "step": 201, "tokens": 1, "losses": losses}) + "\n")
        file.write(json.dumps({"kind": "eval", "step": 201, "metrics": {evil: 1.0, "gain": None}}) + "\n")
    found = Html(write_page(run))
    assert not [tag for tag, _ in found.tags if tag in ("script", "img")]
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert evil in found.text and "{{ 7*7 }}" in found.text
    assert {path.name for path in tmp_path.rglob("*.html")} == {"report.html"}


@pytest.mark.parametrize("steps", [0, 3])
def test_a_run_that_has_just_begun_has_a_page(steps: int, tmp_path: Path, no_figures: None) -> None:
    run = make_run(tmp_path / "run", steps=10, eval_every=100)
    rows = [{"kind": "train", "step": step, "tokens": 9, "loss": 1} for step in range(1, steps + 1)]
    write_metrics(run, rows)
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'\x80\n{"kind": "ev')
    for name in ("audit.json", "examples.json"):
        (run / name).unlink()
    text = Html(write_page(run)).text
    shown = ["No held-out evaluation yet" if steps else "nothing was logged yet", "in progress"]
    shown += ["not been evaluated", "no worked examples yet", "left out: 1"]
    assert not [words for words in shown if words not in text], text


@pytest.mark.parametrize("file", ["run.toml", "audit.json", "examples.json"])
def test_a_damaged_record_is_named(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=10, eval_every=10)
    (run / file).write_bytes(b"[\x80")
    assert main(["report", str(run)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {run / file}: ")


def test_without_matplotlib_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = make_run(tmp_path / "run", steps=20, eval_every=10)
    assert main(["report", str(run)]) == 0
    found = Html(run / "report.html")
    assert "matplotlib" in found.text and "matplotlib" in capsys.readouterr().err
    assert not [tag for tag, _ in found.tags if tag == "svg"] and "Held-out metrics" in found.text


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"gain": 0.083, "auc": 0.812}, "an original one 81 times in 100"),
        ({"gain": 0.001, "auc": 0.51}, "cannot tell replaced words"),
        ({"gain": -0.02, "auc": 0.62}, "0.020 nats per token worse than the base rate. More training"),
        ({"generator_loss": 3.21, "generator_accuracy": 0.456}, "predicts 45.6% of the masked tokens"),
        ({"novel": 1.0}, "none of the usual metrics"),
    ],
)
def test_verdicts(tmp_path: Path, metrics: dict[str, float | None], words: str) -> None:
    run = make_run(tmp_path / "run", steps=1)
    write_metrics(run, [{"kind": "eval", "step": 1, "metrics": metrics}])
    assert words in verdict(read_run(run))


def test_tokens_are_marked_by_the_threshold_of_the_last_evaluation(tmp_path: Path, no_figures: None) -> None:
    """The one that `detect` uses for the discriminator."""
    run = make_run(tmp_path / "run", steps=1)
    write_metrics(run, [{"kind": "eval", "step": 1, "metrics": {"best_f1_threshold": 0.25}}])
    scored = ((0.3, "replaced"), (0.2, "replaced"), (0.3, "original"), (0.2, "original"))
    rows = [{"original": "a", "generated": "b", "label": label, "p_replaced": p} for p, label in scored]
    (run / "examples.json").write_text(json.dumps([{"rows": rows}]))
    tokens = re.findall(r'class="token (\w*)"', write_page(run).read_text())
    assert tokens == ["caught", "missed", "alarm", ""]
