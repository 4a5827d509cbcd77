"""Small networks with random weights, and hand-written sentences, for tests of probes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from electra.artifacts.network_names import Head
from electra.data.corpus.tokenizer import Tokenizer
from electra.exchange.huggingface import export
from electra.exchange.load import Loaded
from electra.model.networks import Networks
from electra.model.pair import build_networks
from electra.testing import toy

if TYPE_CHECKING:
    from electra.laboratory.analysis.contract import Findings, StudiedModel

PIECES = str.split("the a chef cook ##ed ##s un ##happy meal cat like ate that . old new")
RenderedFindings = SimpleNamespace

# word/part of speech; "like" and "that" are ambiguous
SENTENCES = (
    "the/DET cats/NOUN like/VERB meals/NOUN ./PUNCT",
    "a/DET chef/NOUN like/ADP the/DET cat/NOUN ./PUNCT",
    "that/DET meal/NOUN cooked/VERB",
    "old/ADJ chefs/NOUN like/VERB that/PRON ./PUNCT",
    "the/DET unhappy/ADJ cat/NOUN ate/VERB that/DET meal/NOUN ./PUNCT",
    "a/DET meal/NOUN like/ADP that/PRON ./PUNCT",
    "new/ADJ cooks/NOUN like/VERB a/DET chef/NOUN",
    "cats/NOUN ate/VERB that/PRON ./PUNCT",
)


def tokenizer(folder: Path, *extra: str) -> Tokenizer:
    """Writes and loads a WordPiece vocabulary of the special tokens, the `extra` pieces and `PIECES`."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *extra, *PIECES]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return Tokenizer.load(folder / "vocab.txt")


def network(
    folder: Path,
    kind: Head = "discriminator",
    architecture: str = "electra",
    *,
    seed: int = 1,
    layers: int = 2,
    extra: str = "",
    more_rows: int = 0,
) -> Loaded:
    """Returns a network with random weights; its table has `more_rows` than its vocabulary has tokens."""
    toy_tokenizer = tokenizer(folder, *([extra] if extra else []))
    rows = toy_tokenizer.vocab_size + more_rows
    config = toy.config(architecture, vocab_size=rows, max_positions=24, num_layers=layers)
    random_network = build_networks(Networks.pair(config, head=kind), seed=seed).main
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in random_network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=rng) * 0.3)
    random_network.eval()
    return Loaded(random_network.encoder, random_network.head, config, toy_tokenizer, kind, (), folder)  # type: ignore[arg-type]


def write_pair(folder: Path, architecture: str = "electra", *, seed: int = 1) -> Path:
    """Exports a discriminator and a generator to subfolders of `folder`, and returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("discriminator", "generator"):
        loaded = network(folder, kind, architecture, seed=seed)  # type: ignore[arg-type]
        (folder / "vocab.txt").unlink()
        export(loaded, folder / kind, folder)
    return folder


def model(folder: Path, name: str = "one", architecture: str = "electra", **options: Any) -> StudiedModel:
    """Returns a model with a discriminator and a generator, as passed to probes."""
    from electra.laboratory.analysis.contract import StudiedModel

    (folder / name).mkdir(parents=True, exist_ok=True)
    networks = {kind: network(folder / name, kind, architecture, **options) for kind in ("discriminator", "generator")}
    return StudiedModel(name, name, loaded={**networks, "encoder": networks["discriminator"]})


def render(findings: Findings) -> RenderedFindings:
    """Returns findings as shown on their page: headline, tables, notes, and json."""
    from electra.laboratory.analysis.contract import Estimate
    from electra.pages import probes

    json, tables = findings.to_json(), []

    def shown(cell: Any) -> Any:
        return Estimate(**cell) if isinstance(cell, dict) else cell

    for table in json["tables"]:
        columns, rows = probes.table_of(table, json["numbers"])
        filled = {"columns": tuple(columns), "rows": [[*map(shown, row)] for row in rows]}
        tables.append(SimpleNamespace(**table, **filled))
    return RenderedFindings(headline=findings.headline, notes=findings.notes, tables=tables, json=json)


def write_treebank(path: Path, repeats: int = 1) -> Path:
    """Writes the sentences as a CoNLL-U file and returns its path."""
    lines = []
    for repeat in range(repeats):
        for index, sentence in enumerate(SENTENCES):
            lines.append(f"# sent_id = {repeat}-{index}")
            for position, annotated in enumerate(sentence.split(), 1):
                word, tag = annotated.split("/")
                lines.append("\t".join([str(position), word, "_", tag, *"______"]))
            lines.append("")
    path.write_text("\n".join(lines))
    return path
