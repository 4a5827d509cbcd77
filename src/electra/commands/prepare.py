"""The command `electra prepare`; stores are built by `electra.data`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from electra.artifacts.store_files import StoreFolder
from electra.commands.framework.command import Command, function
from electra.commands.framework.shared import Workers
from electra.commands.results.result_folders import Store
from electra.data.text_settings import AllowUnknown, CorpusConfig, TokenizerConfig
from electra.foundation.display import display_for
from electra.foundation.options import Source, Sources, as_names, checked_path, optional_name
from electra.training.recipe import TokenizerSection


@dataclass(frozen=True)
class Prepare(
    AllowUnknown,
    CorpusConfig,
    TokenizerConfig,
    Workers,
    Command[Store],
    examples=(
        "electra prepare texts/ --out store",
        "electra prepare 'c4/*.json.gz' --no-lowercase --out store",
    ),
):
    """Turn text into a token store: read it, train or load a tokenizer, and encode it on all cores.

    The store's audit accounts for every token. If OUT already has a store made from the same text and
    settings, it is reused.
    """

    SECTIONS: ClassVar[Mapping[str, type]] = {"tokenizer": TokenizerSection, "data": CorpusConfig}
    corpus: Sources
    """Files, folders, globs, - (stdin), hub:NAME:CONFIG:SPLIT, or python-docs (Python's own
    documentation).
    """
    _: KW_ONLY
    out: Source
    """The folder for the store."""
    tokenizer: Source | None = field(default=None, metadata={"flags": ("--tokenizer.source",)})
    """An existing tokenizer: a folder, vocab.txt, tokenizer.json, a store, a run or a hub name (default:
    train one on the corpus).
    """

    def __post_init__(self) -> None:
        Command.__post_init__(self)  # those of the settings run when `part` makes them

    @override
    def run(self) -> Store:
        out, source = checked_path(self.out, "out"), optional_name(self.tokenizer, "tokenizer")
        tokenizer = TokenizerSection(source=source, **asdict(self.part(TokenizerConfig)))
        from electra.training.stores import build

        existed = StoreFolder(out).exists()
        with display_for(self.progress) as display:
            how: Any = {"workers": self.workers, "allow_unknown": self.allow_unknown, "say": display.say}
            build(as_names(self.corpus, "corpus"), out, tokenizer, self.part(CorpusConfig), **how)
            store = Store(out)
            outcome = "already complete" if existed else "written"
            display.say(f"{outcome}: {out} (data {store.tokens.digest[:16]})")
            display.say(f"next: electra pretrain {out} --out runs/NAME --budget 30m")
        return store


prepare = function(Prepare)
