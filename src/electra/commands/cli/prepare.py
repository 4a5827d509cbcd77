"""Turn text into a token store: read it, train or load a tokenizer, encode on all cores.

Every token is accounted for in the store's audit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from electra.commands.cli.arguments import Positional
from electra.foundation.errors import ConfigError
from electra.training.recipe import DataSection, TokenizerSection

ALIASES = {"--tokenizer": "--tokenizer.source"}


@dataclass(frozen=True)
class Arguments:
    corpus: Positional[tuple[str, ...]]
    """Files, folders, globs, URLs, - (stdin), hub:NAME:CONFIG:SPLIT, or python-docs (the prose of Python's
    own documentation). For a mixture with --mix-temperature, NAME=SOURCE.
    """
    out: Path
    """Folder for the store. Reused if it already exists."""
    workers: int | None = None
    """Processes that encode the corpus (default: all cores)."""
    memory: int = 1000
    """Megabytes of memory for finding duplicates; the rest is kept on disk. The store is the same for any
    value.
    """
    shard: str | None = None
    """Prepare one part of several, such as 3/8 (counted from 0), on a machine of its own. Needs
    --tokenizer.source; --merge joins the parts.
    """
    merge: bool = False
    """Join the shards named as CORPUS into the store that a single command would have made."""
    tokenizer: TokenizerSection = field(default_factory=lambda: TokenizerSection(vocab_size=30_522))
    data: DataSection = field(default_factory=DataSection)


def run(arguments: Arguments) -> int:
    from electra.artifacts.store import StoreFolder
    from electra.commands.workflow import prepare as workflow
    from electra.commands.workflow.display import Terminal

    corpus, out, tokenizer, data = arguments.corpus, arguments.out, arguments.tokenizer, arguments.data
    if not corpus:
        raise ConfigError(
            "no text given", where="electra prepare", fix="For example: electra prepare texts/ --out store"
        )
    if arguments.merge and arguments.shard is not None:
        raise ConfigError(
            "both `shard` and `merge` are given", where="electra prepare", fix="Give one of them"
        )
    display = Terminal()
    if arguments.shard is not None:
        if tokenizer.source is None:
            fix = (
                "Make it from a sample: electra prepare SAMPLE --out first; then use `tokenizer.source=first`"
            )
            raise ConfigError("all shards need the same tokenizer", key="shard", fix=fix)
        new = workflow.prepare_shard(
            corpus,
            out,
            arguments.shard,
            tokenizer=tokenizer.source,
            data=data,
            workers=arguments.workers,
            memory=arguments.memory,
            progress=display,
        )
        display.say(f"{'written' if new else 'already complete'}: shard {arguments.shard} in {out}")
        return 0
    existed = StoreFolder(out).exists()
    store = (
        workflow.merge_shards(corpus, out, progress=display)
        if arguments.merge
        else workflow.build(
            corpus,
            out,
            tokenizer,
            data,
            workers=arguments.workers,
            memory=arguments.memory,
            display=display,
        )
    )
    display.say(f"{'already complete' if existed else 'written'}: {out} (data {store.tokens.digest[:16]})")
    model = tokenizer.source if workflow.holds_weights(tokenizer.source) else None
    start = f"--init {model}" if model else "--recipe budget-tiny"
    display.say(f"next: electra pretrain {start} --store {out} --out runs/NAME --budget 30m")
    return 0
