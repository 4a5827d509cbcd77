"""The page of a study: the verdict, figures and tables of the arms, curves and costs.

Every number comes from results.json, written by `electra ablate`; nothing is computed here.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.artifacts.evaluation_files import StudyFolder, baselines_of
from electra.foundation import durable
from electra.foundation.errors import ConfigError
from electra.foundation.terminal_text import when
from electra.pages import metric_titles as metrics
from electra.pages.figures import Figure, Series
from electra.pages.page import Number, Page, PageTable, Section, publish

FORMAT = 2
MIN_SEEDS = 3  # fewer give intervals too wide to draw
INTERVALS = "Brackets, bars and bands are 95 % intervals over seeds."
Score = Mapping[str, Any]  # mean, sd, low, high, n, by_seed and perhaps against_baseline


def write_page(out: Path) -> Path:
    """Writes the page of a study. Raises ConfigError if there are no results of this version."""
    path, what = StudyFolder(out).results, "the results of a study"
    results = durable.read_record(path, FORMAT, ConfigError, what, fix="Run electra ablate")
    return publish(StudyPage(results, StudyFolder(out).commands).page(), StudyFolder(out).page)


class StudyPage:
    """The contents of results.json, with the titles of its arms and metrics."""

    def __init__(self, results: Mapping[str, Any], commands: Sequence[str] = ()) -> None:
        self.results, self.study, self.primary = results, results["study"], results["primary"]
        self.commands = commands
        self.arms: Mapping[str, Any] = results["budgets"][-1]["arms"]
        self.baselines = {*baselines_of(self.study).values()}
        one = len(self.baselines) == 1
        self.baseline = self.arm(self.study["baseline"]) if one else "its own baseline"

    def page(self) -> Page:
        """Returns the page."""
        results, study = self.results, self.study
        missing = "; ".join(f"{self.arm(job['arm'])}, seed {job['seed']}" for job in results["missing"])
        failed = [f"Failed: {run['job']}: {run['problem']}" for run in results["failed"]]
        return Page(
            study["title"],
            f"{self.verdict()} {study['question']}".strip(),
            [
                self.result() if self.primary else None,
                self.others(),
                Section("During training", f"Means over seeds. {INTERVALS}", figures=[*self.curves()]),
                Section("Arms", "Every arm gets the updates nearest to the budget.", tables=[*self.costs()]),
            ],
            kicker="electra ablate",
            facts=[
                ("Arms", Number(len(self.arms), "")),
                ("Training FLOPs of each", Number(results["flops"], ".2e"), f"budget {results['budget']}"),
                ("Seeds", Number(len(results["seeds"]), ""), ", ".join(map(str, results["seeds"]))),
                ("Recipe", str(results["recipe"])),
            ],
            warnings=[*([] if results["complete"] else [f"Not finished. Missing: {missing}."]), *failed],
            notes=[*results.get("notes", ())]
            or ([] if results["panel"] else ["No evaluation tasks: there are only pre-training metrics."]),
            commands=self.commands,
        )

    def arm(self, name: str) -> str:
        """Returns the title of an arm."""
        return str(self.study["arms"][name]["title"])

    def at_start(self, arm: str, metric: str) -> float | None:
        """Returns an arm's score before its first update; None if it was not measured."""
        found: float | None = self.results.get("at_start", {}).get(arm, {}).get(metric)
        return found

    def metric(self, name: str) -> tuple[str, str]:
        """Returns the title and the meaning of a metric."""
        panel = self.results["panel"]
        if name == "panel":
            return "Mean over tasks", "Higher is better."
        if name in panel:
            kind = panel[name]["metric"].replace("_", " ").capitalize()
            return str(panel[name]["title"]), f"{kind}, higher is better."
        return metrics.title(name), metrics.meaning(name)

    def scores(self, metric: str) -> dict[str, Score]:
        """Returns a metric's statistics by arm, with intervals inside the possible range."""
        panel, found = self.results["panel"], dict[str, Score]()
        kind = "accuracy" if metric == "panel" else panel.get(metric, {"metric": metric})["metric"]
        for name, arm in self.arms.items():
            if metric in arm["scores"]:
                score = arm["scores"][metric]
                low, high = metrics.clip_interval(kind, score.get("low"), score.get("high"))
                found[name] = {**score, "low": low, "high": high}
        return found

    def verdict(self) -> str:
        """Returns a sentence on how the arms compare with the baseline; empty if none was tested."""
        scores = self.scores(self.primary) if self.primary else {}
        tests = {name: score.get("against_baseline") or {} for name, score in scores.items()}
        tests = {name: test for name, test in tests.items() if test.get("p_holm") is not None}
        clear = {name: test for name, test in tests.items() if test["p_holm"] < 0.05}
        ways = [self.difference(name, test, scores[name]["n"]) for name, test in clear.items()]
        if len(clear) < len(tests):
            others = f"{len(tests) - len(clear)} of the arms" if clear else "any arm"
            ways.append(f"no measurable difference for {others}")
        return f"{self.metric(self.primary)[0]}: {'; '.join(ways)}." if ways else ""

    def difference(self, name: str, test: Score, seeds: int) -> str:
        """Returns how far an arm is above or below its baseline, with the interval, in words."""
        way = "above" if test["difference"] > 0 else "below"
        is_share = self.primary in (*self.results["panel"], "panel")
        unit, factor, digits = (" points", 100, 1) if is_share else ("", 1, 3)
        size, low, high = (factor * test[end] for end in ("difference", "low", "high"))
        size_shown = f"{size:+.{digits}f}{unit} [{low:z.{digits}f}, {high:z.{digits}f}]"
        p = "p < .001" if test["p_holm"] < 0.001 else f"p = {test['p_holm']:.3f}".replace("0.", ".", 1)
        return f"{self.arm(name)} {way} {self.baseline} ({size_shown}, {p}, {seeds} seeds)"

    def result(self) -> Section:
        """Returns the section on the primary metric, with its tests."""
        scores, paper, rows = self.scores(self.primary), self.study["paper"], []
        for name in self.arms:
            score = scores.get(name, {})
            test = score.get("against_baseline") or {}
            row = {key: score.get(key, test.get(key)) for key in ("sd", "p", "p_holm")}
            row["arm"] = self.arm(name) + when(name in self.baselines, " (baseline)")
            row["score"] = _number(score)
            row["difference"] = Number(test.get("difference"), "+.3f", test.get("low"), test.get("high"))
            row["at_start"] = self.at_start(name, self.primary)
            rows.append({**row, "paper": self.study["arms"][name]["paper"]})
        columns: dict[str, tuple[str, ...]] = {
            "Arm": ("arm",),
            self.metric(self.primary)[0]: ("score",),
            "Before training": ("at_start", ".3f"),
            "sd": ("sd", ".3f"),
            "Against baseline": ("difference",),
            "p": ("p", ".2g"),
            "p (Holm)": ("p_holm", ".2g"),
        }
        notes = []
        if all(row["at_start"] is None for row in rows):
            del columns["Before training"]
            notes.append("No untrained encoder was scored: rerun the command.")
        if paper["source"]:
            source = ", ".join(filter(None, (paper["metric"], paper["source"])))
            notes.append(f"Paper: {source}. {paper['note']}")
        if any(row["paper"] is not None for row in rows):
            columns["Paper (another scale)"] = ("paper", ".1f")
            notes.append("Of the paper's numbers compare the order and the differences, never the values.")
        lead = f"Every arm is tested against {self.baseline}, with a t-test paired by seed. {INTERVALS}"
        if max((score["n"] for score in scores.values()), default=0) < 2:
            lead = "One seed so far: no intervals and no tests; differences may be due to chance."
        return Section("Result", lead, notes, [self.figure(self.primary)], [PageTable.of(rows, columns)])

    def others(self) -> Section:
        """Returns the section on all metrics but the primary one."""
        found = dict.fromkeys(metric for arm in self.arms.values() for metric in arm["scores"])
        shown = [metric for metric in found if metric != self.primary]
        scores = [self.scores(metric) for metric in shown]
        rows = [(self.arm(name), *(_number(each.get(name, {})) for each in scores)) for name in self.arms]
        starts = [
            (f"{self.arm(name)}, before training", [self.at_start(name, each) for each in shown]) for name in self.arms
        ]
        rows += [(name, *(Number(each, ".3f") for each in values)) for name, values in starts if any(values)]
        table = PageTable(["Arm", *(self.metric(metric)[0] for metric in shown)], rows)
        figures = [*map(self.figure, shown)]
        return Section("All scores", INTERVALS, (), figures, [table])

    def figure(self, metric: str) -> Figure:
        """Draws a metric of all arms: over the study's axis, or as one row per arm."""
        (title, about), final, arms = self.metric(metric), self.scores(metric), self.study["arms"]
        lines: dict[str, list[tuple[Any, Score]]] = {}
        placed = {arm: keys["at"] for arm, keys in arms.items() if keys["at"] is not None and arm in final}
        if not placed:
            rows = [(self.arm(arm), _drawable(each)) for arm, each in final.items()]
            seeds = [(self.arm(arm), y) for arm, each in final.items() for y in each["by_seed"].values()]
            dots = Series("one seed", [arm for arm, _ in seeds], [y for _, y in seeds])
            series = [Series.through("mean", rows), dots]
            return Figure(metric, title, about, series, "categories", x=title)
        for arm, at in sorted(placed.items(), key=lambda item: item[1]):
            lines.setdefault(arms[arm]["series"] or title, []).append((at, _drawable(final[arm])))
        ends = [min(placed.values()), max(placed.values())]
        levels = {self.arm(arm): score["mean"] for arm, score in final.items() if arm not in placed}
        series = [Series.through(label, points) for label, points in lines.items()]
        series += [Series(label, ends, [mean] * 2, style="reference") for label, mean in levels.items()]
        return Figure(metric, title, about, series, x=self.study["axis"], y=title)

    def curves(self) -> Iterator[Figure]:
        """Draws the held-out metrics during training."""
        curves, has_bands = self.results["curves"], len(self.results["seeds"]) >= MIN_SEEDS
        for metric in dict.fromkeys(metric for arm in curves.values() for metric in arm):
            series = []
            for name, arm in curves.items():
                x, y, low, high = arm[metric].values() if metric in arm else ([], [], [], [])
                clipped = [metrics.clip_interval(metric, *ends) for ends in zip(low, high, strict=True)]
                bands = zip(*clipped, strict=True) if clipped and has_bands else ()
                series.append(Series(self.arm(name), x, y, *bands))
            title, about = metrics.title(metric), metrics.meaning_of_curve(metric, *(s.y for s in series))
            yield Figure(f"curve-{metric}", title, about, series, axis="flops")

    def costs(self) -> Iterator[PageTable]:
        """Returns what the arms cost, and the settings in which they differ."""
        rows = []
        for name, arm in self.arms.items():
            rows.append({**arm, "arm": self.arm(name), "alarms": f"{arm['collapsed']} of {arm['runs']}"})
        columns = {
            "Arm": ("arm",),
            "Updates": ("steps", ""),
            "Tokens": ("tokens", "large"),
            "FLOPs": ("flops", ".3e"),
            "Time per run": ("seconds", "time"),
            "Collapse alarms": ("alarms",),
        }
        yield PageTable.of(rows, columns)
        recipes: list[dict[Any, Any]] = [
            dict(PageTable.pairs("", recipe).rows)  # type: ignore[arg-type]
            for recipe in self.results["arms"].values()
        ]
        keys = dict.fromkeys(key for recipe in recipes for key in recipe)
        settings = [(key, *(recipe.get(key) for recipe in recipes)) for key in keys]
        differing = [row for row in settings if len(set(row[1:])) > 1]
        yield PageTable(["Setting", *map(self.arm, self.results["arms"])], differing)


def _drawable(score: Score) -> Score:
    return score if score.get("n", 0) >= MIN_SEEDS else {"mean": score.get("mean")}


def _number(score: Score) -> Number:
    return Number(score.get("mean"), ".3f", score.get("low"), score.get("high"))
