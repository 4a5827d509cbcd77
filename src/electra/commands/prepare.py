"""The command `electra prepare`; stores are built by `electra.data`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from electra.artifacts.store import ShardFolder, ShardsFolder, StoreFolder
from electra.commands.framework.command import Command, Source, TypedNames, function
from electra.commands.framework.display import Display, display_for
from electra.commands.parts import stores
from electra.commands.parts.copies import LOCAL, Copies, print_missing
from electra.commands.parts.shared import Workers
from electra.commands.parts.texts import Corpus, is_data_set, source_names
from electra.commands.results.folders import Store
from electra.data.settings import CorpusConfig, TokenizerConfig
from electra.foundation.errors import ConfigError, Interrupted
from electra.foundation.options import as_name, checked_path, optional_name
from electra.foundation.signals import StopRequest, interrupt_on_signal
from electra.training.recipe import TokenizerSection

if TYPE_CHECKING:
    from electra.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prepare(
    CorpusConfig,
    TokenizerConfig,
    Workers,
    Copies,
    Command[Store],
    group="Train",
    examples=(
        "electra prepare texts/ --out store",
        "electra prepare de=texte/ fi=tekstit/ --mix-exponent 0.5 --no-lowercase --out store",
    ),
):
    """Turn text into a token store: read it, train or load a tokenizer, and encode it on all cores.

    The store's audit accounts for every token. If OUT already has a store made from the same text and
    settings, it is reused.
    """

    SECTIONS: ClassVar[Mapping[str, type]] = {"tokenizer": TokenizerConfig, "data": CorpusConfig}
    corpus: Corpus
    """Files, folders, globs, URLs, - (stdin), hub:NAME:CONFIG:SPLIT, or python-docs (Python's own
    documentation). For a mixture with --mix-exponent: NAME=SOURCE. In Python, also texts, a
    DataFrame, a Hugging Face dataset, or several corpora by name: {"de": ..., "fi": ...}.
    """
    _: KW_ONLY
    out: Source
    """The folder for the store, or an address such as s3://bucket/store."""
    tokenizer: Source | None = field(default=None, metadata={"flags": ("--tokenizer.source",)})
    """An existing tokenizer: a folder, vocab.txt, tokenizer.json, a store, a run or a hub name (default:
    train one on the corpus).
    """
    cut_to: int | None = field(default=None, metadata={"flags": ("--tokenizer.cut-to",)})
    """Number of entries to keep of an existing WordPiece tokenizer: those most useful for the corpus
    (default: all).
    """
    memory: int = 1000
    """Megabytes of memory for finding duplicates; what does not fit goes to disk. Does not affect the result.
    """
    shard: str | None = None
    """Share the work among machines. all/8: encode in 8 parts; processes with the same OUT take parts that
    are neither done nor in progress, and one of them joins the parts. 3/8: encode only part 3, counted from
    0; join the parts with --merge. auto/8: take the part's number from a Slurm array, a Kubernetes Job or
    torchrun; if there is none, work like all/8. auto: the same, with the number of parts from there too.
    Needs --tokenizer.
    """
    merge: bool = False
    """Join the finished parts, whose folders are passed as CORPUS, into a store, byte-identical to one made
    by a single command.
    """

    @override
    def run(self) -> Store:
        from electra.data.chunks import uploaded
        from electra.data.remote import fetch_store, is_remote

        corpus = self.corpus
        if isinstance(corpus, TypedNames) and not corpus:
            fix = f"For example: {self.EXAMPLES[0]}"
            raise ConfigError("no text was passed", where="electra prepare", fix=fix)
        if self.merge and self.shard is not None:
            problem = "both `shard` and `merge` were passed"
            raise ConfigError(problem, where="electra prepare", fix="Pass only one of them")
        if isinstance(corpus, Mapping) and not is_data_set(corpus) and self.mix_exponent is None:
            fix = "Pass one, such as 0.5, or pass a list of sources without names"
            raise ConfigError("named corpora need a mixing exponent", key="mix_exponent", fix=fix)
        place, (number, count) = as_name(self.out, "out"), self._shard()
        is_shared = self.shard is not None and number is None
        if is_shared and is_remote(place):
            fix = "Use a shared folder, or prepare each part by number, at its own address"
            raise ConfigError("machines cannot share an address", key="out", fix=fix)
        with (
            display_for(self.progress) as display,
            source_names(corpus, "corpus", self.text_field, self.format, display.say) as names,
        ):
            with uploaded(place) if is_remote(place) else nullcontext(checked_path(place, "out")) as out:
                existed = StoreFolder(out).exists() or ShardFolder(out).exists()
                if number is not None:
                    self._prepare_shard(names, out, (number, count), display)
                else:
                    if is_shared and not existed:
                        self._prepare_shards(names, out, count, display)
                    store = (
                        self._merge(names, out, display) if self.merge else self._build(names, out, display)
                    )
            outcome = "already complete" if existed else "written"
            if number is not None:
                display.say(f"{outcome}: shard {self.shard} in {place if is_remote(place) else out}")
                return None  # type: ignore[return-value]  # a shard is not a store
            if is_remote(place):
                store = Store(fetch_store(place))
            else:
                place = str(out)
            display.say(f"{outcome}: {place} (data {store.tokens.digest[:16]})")
            source = optional_name(self.tokenizer)
            init_option = f"--init {source} " if stores.holds_weights(source) else ""
            data = f"--store {place}" if is_remote(place) else place
            display.say(f"next: electra pretrain {data} {init_option}--out runs/NAME --budget 30m")
        return store

    @override
    def main(self) -> int:
        if self.missing:
            from electra.data.sharding import missing_shards

            return print_missing(missing_shards(checked_path(self.out, "out"), self._shard()[1]))
        return super().main()

    def _shard(self) -> tuple[int | None, int]:
        """Returns the number of the part to encode (None: all) and the number of parts."""
        from electra.data.sharding import ALL, parse_shard

        is_shared = self.missing or self.engine != LOCAL
        if is_shared and not (self.shard or "").startswith(f"{ALL}/"):
            key = "missing" if self.missing else "engine"
            raise ConfigError("only parts of a corpus can be shared", key=key, fix="Use `shard=all/8`")
        return (None, 1) if self.shard is None else parse_shard(self.shard)

    def _build(self, names: list[str], out: Path, display: Display) -> Store:
        source = optional_name(self.tokenizer, "tokenizer")
        tokenizer = TokenizerSection(source=source, cut_to=self.cut_to, **asdict(self.part(TokenizerConfig)))
        return stores.build(
            names,
            out,
            tokenizer,
            self.part(CorpusConfig),
            workers=self.workers,
            memory=self.memory,
            display=display,
        )

    def _tokenizer_of_shards(self) -> Tokenizer:
        if self.tokenizer is None:
            fix = "Train it on a sample: electra prepare SAMPLE --out first; then use `tokenizer=first`"
            raise ConfigError("all shards need the same tokenizer", key="shard", fix=fix)
        if self.cut_to is not None:
            fix = "Cut it on a sample: electra prepare SAMPLE --out first; then use `tokenizer=first`"
            raise ConfigError("all shards need the same tokenizer", key="cut_to", fix=fix)
        stores.check_memory(self.memory)
        return stores.existing_tokenizer(self.tokenizer)

    def _prepare_shards(self, names: list[str], out: Path, count: int, display: Display) -> None:
        from electra.data.sharding import build_shards, missing_shards

        tokenizer = self._tokenizer_of_shards()
        with StopRequest() as stop:
            folder = ShardsFolder.of(out).path
            self.run_copies(folder, display.say, stop, lambda: missing_shards(out, count))
            if StoreFolder(out).exists():
                return
            try:
                build_shards(
                    names,
                    tokenizer,
                    out,
                    count,
                    config=self.part(CorpusConfig),
                    workers=self.workers,
                    memory=self.memory * 1_000_000,
                    say=display.say,
                    stop=stop,
                    progress=stores.character_progress(display),
                )
            except Interrupted:
                raise Interrupted(out, stop.exit_code or 130) from None

    def _prepare_shard(self, names: list[str], out: Path, number: tuple[int, int], display: Display) -> None:
        from electra.data.sharding import build_shard

        tokenizer = self._tokenizer_of_shards()
        with interrupt_on_signal(self.out):
            build_shard(
                names,
                tokenizer,
                out,
                number,
                config=self.part(CorpusConfig),
                workers=self.workers,
                memory=self.memory * 1_000_000,
                progress=stores.character_progress(display),
            )

    def _merge(self, names: list[str], out: Path, display: Display) -> Store:
        from electra.data.remote import expand_patterns, fetch_store, is_remote
        from electra.data.sharding import merge

        shards = [
            fetch_store(name, display.say) if is_remote(name) else checked_path(name, "corpus")
            for name in expand_patterns(names)
        ]
        with interrupt_on_signal(out):
            merge(shards, out, stores.character_progress(display))
            store = Store(out)
            stores.print_audit(store, display)
        return store


prepare = function(Prepare)
