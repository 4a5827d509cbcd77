from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_run import AUDIT, make_run

from electra.artifacts.ledger import Curve
from electra.commands.framework.main import main
from electra.foundation import durable
from electra.foundation.errors import RunFolderError
from electra.pages import figures, pages
from electra.pages import page as blocks_of
from electra.pages.compare import comparison
from electra.pages.figures import Figure, Series
from electra.pages.glossary import METRICS, clip_interval
from electra.pages.page import Columns, Facts, Fold, Number, Section, Table, Text, render
from electra.pages.read import read_run
from electra.pages.run import run_page, verdict, write_report

FIXTURES = Path(__file__).parents[1] / "fixtures"
VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """Parses strictly: every tag is closed, in order. Keeps tags, text and the exact numbers of <data>
    elements.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.numbers: list[float] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self.numbers.append(float(dict(attrs)["value"] or ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "text"):
            self.text += data

    def references(self) -> Iterator[str]:
        for _, attributes in self.tags:
            yield from (
                value or ""
                for name, value in attributes.items()
                if name in ("src", "href", "xlink:href", "action", "srcset", "data")
            )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "first-light", steps=600, eval_every=100, leaves=200)


@pytest.fixture(scope="module")
def html(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


def test_the_page_stands_alone(html: str) -> None:
    page = Page(html)
    assert all(reference.startswith(("#", "data:")) for reference in page.references())
    assert not re.search(r"url\((?!#)|@import|https?:|<script|<metadata|<!--", html)
    assert (
        "meta",
        {
            "http-equiv": "Content-Security-Policy",
            "content": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        },
    ) in page.tags
    assert "prefers-color-scheme: dark" in html and "@media print" in html
    identities = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    anchors = [reference[1:] for reference in page.references() if reference.startswith("#")]
    assert set(anchors) <= set(identities)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(identities)


def test_its_numbers_are_those_of_the_files(run: Path, html: str) -> None:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    final = [row for row in rows if row["kind"] == "eval"][-1]
    numbers = Page(html).numbers
    expected = {*final["metrics"].values(), final["step"], final["tokens"], final["flops"], final["seconds"]}
    expected |= {
        row["p_replaced"]
        for row in json.loads((run / "examples.json").read_text(encoding="utf-8"))[0]["rows"]
    }
    expected |= {value for value in AUDIT.values() if isinstance(value, int | float)}
    assert expected <= set(numbers)
    speeds = sorted(row["tokens_per_s"] for row in rows if row["kind"] == "train")
    median = (speeds[len(speeds) // 2] + speeds[(len(speeds) - 1) // 2]) / 2
    baselines = {0.0, 0.5, 1 - final["metrics"]["base_rate"]}
    nested = {*AUDIT["padding"].values(), *(source["size"] for source in AUDIT["sources"])}
    known = expected | baselines | nested | {median} | {row["step"] for row in rows}
    assert set(numbers) <= known  # and nothing else is a number


def test_the_page_has_titles_and_facts(html: str) -> None:
    text = " ".join(Page(html).text.split())
    for title in (
        "Held-out metrics",
        "Held-out curves",
        "Training curves",
        "Worked examples",
        "Data audit",
        "Events",
        "Recipe and environment",
    ):
        assert title in text
    for words in (
        "budget-tiny",
        "Finished",
        "of 600",
        "discriminator_weight",
        "1e-06",
        "2.13.0+cpu",
        "6 checkpoints written",
        "15,204,352",
    ):
        assert words in text
    verdict = re.search(r"\d\d times in 100", text)
    assert verdict and verdict.start() < text.rindex("The run in numbers") < text.index("chef"), (
        "the result first"
    )
    of_other_objectives = {
        "best_f1_threshold",
        "generator_entropy",
        "mlm_loss",
        "mlm_accuracy",
        "sampler_loss",
        "states_loss",
        "vectors_loss",
        "relations_loss",
    }
    assert all(
        (metric.meaning in text) == (key not in of_other_objectives) for key, metric in METRICS.items()
    )
    assert "masks 0.4 of the tokens, evaluation 0.15" in text


def test_the_same_run_gives_the_same_bytes(run: Path, html: str) -> None:
    before = {path.name: path.read_bytes() for path in (run / "figures").iterdir()}
    assert write_report(run).read_text(encoding="utf-8") == html
    assert {path.name: path.read_bytes() for path in (run / "figures").iterdir()} == before
    assert not [path for path in run.rglob("*") if path.name.startswith(".tmp-")]


def test_figures_are_whole_files_in_the_colour_of_the_text(run: Path, html: str) -> None:
    names = {path.name for path in (run / "figures").iterdir()}
    assert {
        "gain-by-tokens.svg",
        "auc-by-steps.svg",
        "losses-rtd-by-flops.svg",
        "learning-rate-by-steps.svg",
    } <= names
    for path in (run / "figures").iterdir():
        svg = path.read_text(encoding="utf-8")
        assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert (
            "currentColor" in svg and "#010203" not in svg and "#000000" not in svg and "<dc:date>" not in svg
        )


def test_a_figure_has_round_ticks_and_says_where_its_lines_end() -> None:
    lines = [Series("held out", [0.0, 6.0e6], [0.4, 0.6]), Series("chance", [0.0, 6.0e6], [0.5, 0.5])]
    figure = figures.draw(Figure("f", "", "", lines, axis="tokens")) or ""
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", figure)
    assert {"0", "2", "4", "6", "held out  0.6", "chance  0.5"} <= set(texts)
    halves = figures.draw(Figure("f", "", "", [Series("x", [0.0, 8.5], [0.0, 1.0])], axis="step")) or ""
    assert "1.5" not in re.findall(r"<text[^>]*>([^<]+)</text>", halves)


@pytest.mark.slow
def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = "</title></td><script>alert(1)</script><img src=x onerror=alert(1)>\"'"
    run = make_run(tmp_path / "<script>$x$ {{ 7*7 }}", steps=200, eval_every=50)
    (run / "run.toml").write_text(
        f"[model]\nsize = {json.dumps(evil)}\n[environment]\n{json.dumps(evil)} = 1\n", encoding="utf-8"
    )
    (run / "audit.json").write_text(
        json.dumps({evil: evil, "n": [evil, {evil: 1}], "huge": 10**400}), encoding="utf-8"
    )
    row = {"original": evil, "masked": evil, "generated": "\ud800", "label": evil, "p_replaced": 1e9}
    (run / "examples.json").write_text(
        json.dumps([{"text": evil, "rows": [row, {**row, "label": "replaced"}]}]), encoding="utf-8"
    )
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        for event in ("collapse", evil):
            file.write(json.dumps({"kind": "event", "step": 200, "event": event, "message": evil}) + "\n")
        losses = {"../../../escaped": 1.0, evil: 2.0, "_hidden": 3.0}
        file.write(json.dumps({"kind": "train", "step": 201, "losses": losses}) + "\n")
        file.write(
            json.dumps({"kind": "eval", "step": 201, "tokens": 1, "metrics": {evil: 1.0, "gain": None}})
            + "\n"
        )
    other = make_run(tmp_path / "_other <b>", steps=200, eval_every=50)
    page = Page(write_report(run, compare=[other]).read_text(encoding="utf-8"))
    assert not [tag for tag, _ in page.tags if tag in ("script", "img")]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert evil in page.text and "{{ 7*7 }}" in page.text
    assert not list(tmp_path.rglob("*escaped*.svg")) or all(
        path.parent == run / "figures" for path in tmp_path.rglob("*escaped*.svg")
    )
    for path in (run / "figures").iterdir():
        ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert "$x$" in (run / "figures" / "compare-gain-by-flops.svg").read_text(
        encoding="utf-8"
    )  # a dollar, not mathematics


def test_a_run_in_progress(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=60, eval_every=1000)
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (run / "metrics.jsonl").write_text(
        "\n".join([lines[0], *lines[2:5]]) + '\n{"kind": "ev', encoding="utf-8"
    )
    (run / "run.toml").write_text(
        (run / "run.toml").read_text(encoding="utf-8").replace("steps = 60", "steps = 900"), encoding="utf-8"
    )
    for name in ("audit.json", "examples.json"):
        (run / name).unlink()
    page = Page(write_report(run).read_text(encoding="utf-8"))
    text = " ".join(page.text.split())
    for words in (
        "No held-out evaluation yet",
        "In progress",
        "of 900",
        "no worked examples yet",
        "No audit",
        "Not in the run folder: audit.json, examples.json.",
    ):
        assert words in text
    assert [tag for tag, _ in page.tags if tag == "svg"]


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    text = " ".join(Page(write_report(tmp_path).read_text(encoding="utf-8")).text.split())
    for words in (
        "The run has logged nothing yet.",
        "nothing to draw",
        "not been evaluated",
        "recorded no events",
        "recipe of this run is not known",
    ):
        assert words in text


@pytest.fixture()
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("no_matplotlib")
def test_an_mlm_run_has_no_discriminator_to_speak_of(tmp_path: Path) -> None:
    page = Page(
        write_report(make_run(tmp_path / "mlm", objective="mlm", steps=200, eval_every=50)).read_text(
            encoding="utf-8"
        )
    )
    assert "The model predicts" in page.text and "Discriminator" not in page.text and "AUC" not in page.text
    assert not [attributes for _, attributes in page.tags if "bar" in (attributes.get("class") or "").split()]


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_the_page_says_so_and_stands(run: Path, tmp_path: Path) -> None:
    page = Page(
        write_report(
            run, tmp_path / "page.html", [make_run(tmp_path / "other", steps=100, eval_every=50)]
        ).read_text(encoding="utf-8")
    )
    assert "pip install matplotlib" in page.text and not [tag for tag, _ in page.tags if tag == "svg"]
    assert "Held-out metrics" in page.text and "At equal training FLOPs" in page.text


def test_a_comparison_draws_each_metric_of_all_runs(run: Path, tmp_path: Path) -> None:
    longer = make_run(tmp_path / "_longer", steps=900, eval_every=100, leaves=300)
    drawn: dict[str, str] = {}
    render(blocks_of.Page("", [comparison([read_run(run), read_run(longer)])]), drawn)
    assert {"compare-gain-by-flops", "compare-gain-by-tokens", "compare-auc-by-flops"} <= set(drawn)
    assert "first-light" in drawn["compare-gain-by-flops"] and "_longer" in drawn["compare-gain-by-flops"]


@pytest.mark.usefixtures("no_matplotlib")
def test_runs_are_compared_at_equal_compute(run: Path, tmp_path: Path) -> None:
    longer = make_run(tmp_path / "first-light", steps=900, eval_every=100, leaves=300)
    runs = [read_run(run), read_run(longer)]
    page = Page(render(run_page(runs[0], runs[1:])))
    text = " ".join(page.text.split())
    assert f"{run.parent.name}/first-light" in text and f"{tmp_path.name}/first-light" in text
    shared = next(point for point in runs[1].ledger.evals if point.step == 600)
    assert shared.values["auc"] in page.numbers and runs[1].ledger.evals[-1].values["auc"] in page.numbers
    assert "(and equal tokens)" in text and "not comparable" not in text
    (longer / "run.toml").write_text("[evaluation]\nmask_fraction = 0.4\n", encoding="utf-8")
    assert "differ in the held-out mask rate" in render(run_page(runs[0], [read_run(longer)]))
    (longer / "metrics.jsonl").write_text(
        '{"kind":"eval","step":5,"metrics":{"auc":0.5}}\n', encoding="utf-8"
    )
    assert "At equal training FLOPs: unknown" in " ".join(
        Page(render(run_page(runs[0], [read_run(longer)]))).text.split()
    )


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (
            {"gain": 0.083, "auc": 0.812},
            "an original one 81 times in 100",
        ),
        ({"gain": 0.3, "auc": 0.9991}, "more than 99 times in 100"),
        (
            {"gain": 0.001, "auc": 0.51},
            "cannot tell replaced words from original ones",
        ),
        (
            {"gain": -0.02, "auc": 0.62},
            "0.020 nats per token worse than the base rate",
        ),
        ({"gain": None, "auc": None, "generator_loss": 3.0, "generator_accuracy": 0.4}, "undefined"),
        (
            {"generator_loss": 3.21, "generator_accuracy": 0.456},
            "predicts 45.6% of the masked tokens",
        ),
        ({"novel": 1.0}, "none of the usual metrics"),
    ],
)
def test_verdicts(tmp_path: Path, metrics: dict[str, float | None], words: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"kind": "eval", "step": 1, "metrics": metrics}) + "\n", encoding="utf-8"
    )
    assert words in verdict(read_run(tmp_path))


@pytest.mark.slow
def test_the_command_line_needs_no_torch(run: Path, tmp_path: Path) -> None:
    program = """if True:
        import sys
        class NoTorch:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("torch", "transformers"):
                    raise ImportError(name)
        sys.meta_path.insert(0, NoTorch())
        from electra.commands.framework.main import main
        sys.exit(main(sys.argv[1:]))"""
    target = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-c", program, "report", str(run), "--out", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(target), "")
    Page(target.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("no_matplotlib")
def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=20, eval_every=10)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for arguments in (
        [tmp_path / "nowhere"],
        [tmp_path / "file"],
        [tmp_path],
        [run, "--compare", tmp_path / "nowhere"],
        [run, "--out", tmp_path],
    ):
        assert main(["report", *map(str, arguments)]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 and lines[0].startswith(f"error: {tmp_path}")
    assert not (run / "report.html").exists()
    with pytest.raises(RunFolderError):
        write_report(tmp_path / "nowhere")


def test_pages_of_other_rooms_look_the_same() -> None:
    table = Table(
        ("Variant", "AUC", "Note"),
        [("rtd", Number(0.8123456, "score"), None), ("mlm", None, "<b>")],
        caption="Three seeds",
    )
    blocks = [
        Text("Plain."),
        Text("Mind this.", "warning"),
        Facts([("Runs", Number(3)), ("Best", "rtd", "of two")]),
        table,
        Columns([table]),
        Fold("More", [Text("x")]),
    ]
    sections = [Section("Results", blocks, "What came of it."), None]
    page = Page(render(blocks_of.Page("Ablation", sections, summary="One sentence.")))
    for words in (
        "Ablation",
        "One sentence.",
        "What came of it.",
        "Mind this.",
        "of two",
        "Three seeds",
        "0.812",
        "<b>",
        "More",
    ):
        assert words in page.text
    assert page.numbers == [3, 0.8123456, 0.8123456]
    columns = [attributes.get("class") for tag, attributes in page.tags if tag == "th"]
    assert columns[:3] == [None, "n", None]


def test_numbers_are_short_and_kept_whole() -> None:
    shown = {
        Number(1234567): "1,234,567",
        Number(0.0005): "0.0005",
        Number(9795.8): "9,796",
        Number(0.81249, "score"): "0.812",
        Number(-0.0001, "score"): "0.000",
        Number(7.965e-05, "percent"): "0.00796 %",
        Number(15204352, "large"): "15.2 M",
        Number(9999, "large"): "9,999",
        Number(1.4756e15, "power"): "1.48 &times; 10<sup>15</sup>",
        Number(12.3, "seconds"): "12.3 s",
        Number(59.7, "seconds"): "1 min 00 s",
        Number(3725, "seconds"): "1 h 02 min",
    }
    for number, text in shown.items():
        assert number.__html__() == f'<data value="{number.value!r}">{text}</data>'
    for nothing in (None, math.nan, math.inf):
        assert "data" not in Number(nothing).__html__()


def test_smoothing_follows_without_lagging() -> None:
    line = Curve([float(x) for x in range(1000)], [2.0 * x for x in range(1000)])
    assert figures.smooth(line).y[20:-20] == pytest.approx(line.y[20:-20])
    assert figures.smooth(Curve([1.0], [5.0])).y == [5.0]


def test_thinning_keeps_the_ends_and_every_spike() -> None:
    curve = Curve([float(x) for x in range(100_000)], [0.0] * 100_000)
    curve.y[54_321], curve.y[77_777] = 9.0, -9.0
    thin = figures.thin(curve)
    assert len(thin.x) <= 602 and (thin.x[0], thin.x[-1]) == (0, 99_999)
    assert {9.0, -9.0} <= set(thin.y) and thin.x == sorted(thin.x)


def test_a_figure_without_measurements_is_not_drawn() -> None:
    nothing, chance = Series("auc", [], []), Series("chance", [0, 1], [0.5, 0.5], style="reference")
    assert figures.draw(Figure("a", "", "", [nothing, chance], axis="step")) is None
    one = Figure("a", "", "", [Series("auc", [0.0], [0.5]), chance], axis="step", marks=[0.0])
    assert figures.draw(one) is not None


def test_a_long_curve_with_a_band_is_drawn() -> None:
    x = [float(step) for step in range(1000)]
    band = Series("auc", x, x, [y - 1 for y in x], [y + 1 for y in x])
    assert figures.draw(Figure("a", "", "", [band], axis="flops")) is not None


def test_the_documentation_names_every_metric() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    keys = [
        *METRICS,
        "losses",
        "counts",
        "learning_rate",
        "gradient_norm",
        "batch_digest",
        "tokens_per_s",
        "seconds",
        "flops",
        "tokens",
        "step",
        "loss",
    ]
    assert not [key for key in keys if f"`{key}`" not in text]


def test_a_followed_run_s_page_is_rewritten_until_its_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "REDRAW_SECONDS", 0.01)
    monkeypatch.setattr("electra.pages.svg.available", lambda: False)
    run = make_run(tmp_path / "run")
    ledger = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(ledger[:40]))
    seen: list[str] = []
    lock = contextlib.ExitStack()

    def sleep(seconds: float) -> None:
        seen.append((run / "report.html").read_text())
        if len(seen) == 1:  # the run goes on
            (run / "metrics.jsonl").write_text("".join(ledger))
        if len(seen) == 2:  # and ends
            lock.close()
        wait(0.02)

    wait = time.sleep
    monkeypatch.setattr(pages.time, "sleep", sleep)
    lock.enter_context(durable.lock(run))
    assert main(["report", str(run), "--follow"]) == 0
    assert len(seen) == 2 and all('http-equiv="refresh"' in page for page in seen)
    last = float(json.loads(ledger[-1])["step"])
    assert [last in Page(page).numbers for page in seen] == [False, True]
    ended = (run / "report.html").read_text()
    assert "refresh" not in ended and main(["report", str(run), "--follow"]) == 0  # nobody works there: once
    assert (run / "report.html").read_text() == ended
    assert main(["report", str(FIXTURES / "old-finetuning"), "--follow"]) == 2


def test_tokens_are_marked_from_the_threshold_of_the_last_evaluation(tmp_path: Path) -> None:
    """The one that `detect` uses for the discriminator; the page used 0.5."""
    run = make_run(tmp_path / "run", steps=200, eval_every=50)
    metrics = run / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    last = next(row for row in reversed(rows) if row["kind"] == "eval")
    last["metrics"]["best_f1_threshold"] = 0.25
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    example = {"text": "a b", "rows": []}
    for p, label in ((0.3, "replaced"), (0.2, "replaced"), (0.3, "original")):
        example["rows"].append(
            {"original": "a", "masked": "a", "generated": "a", "label": label, "p_replaced": p}
        )
    (run / "examples.json").write_text(json.dumps([example]))
    [shown] = read_run(run).examples
    assert [token.outcome for token in shown.rows] == ["caught", "missed", "false-alarm"]
    assert "the threshold, 0.25" in " ".join(Page(render(run_page(read_run(run)))).text.split())


@pytest.mark.parametrize(
    ("metric", "interval"),
    [
        ("accuracy", (0.0, 0.66)),
        ("matthews_correlation", (-0.332, 0.66)),
        ("generator_loss", (0.0, 0.66)),
        ("gain", (-0.332, 0.66)),
    ],
)
def test_intervals_stay_in_the_possible_range(metric: str, interval: tuple[float, float]) -> None:
    assert clip_interval(metric, -0.332, 0.66) == interval
    assert clip_interval("auc", 0.5, 1.2) == (0.5, 1.0) and clip_interval(metric, None, None) == (None, None)
