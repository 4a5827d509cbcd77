"""An option that two commands have means the same in both: it takes the same kind of value."""

from __future__ import annotations

from collections import defaultdict

from electra.commands.framework.command import options_of
from electra.commands.framework.main import COMMANDS, class_of

SYNONYMS = {"batch", "limit", "lr", "max_len", "n_seeds", "num_threads", "num_workers", "vocab", "output"}


def test_an_option_name_takes_the_same_in_every_command() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for name in COMMANDS:
        for option in options_of(class_of(name)):
            if option.positional:
                continue
            value = "" if option.is_switch else option.metavar.split(" ")[0].replace("PATH", "TEXT")
            kinds[option.name.rpartition(".")[2]].add("a choice" if value.startswith("{") else value)
    differ = {name for name, found in kinds.items() if len(found) > 1}
    assert differ == {"init"}, "pretrain: a model; finetune: how"
    assert SYNONYMS.isdisjoint(kinds)
