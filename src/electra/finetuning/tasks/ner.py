"""Named entity recognition, with BIO or BIOES tags; F1 is over whole entities."""

from __future__ import annotations

from electra.finetuning.tasks.parts.word_tags import WordTagging

TASK = WordTagging(
    name="ner",
    version=1,
    source=(
        "CoNLL-2003 (Tjong Kim Sang, De Meulder 2003), WNUT-17 (Derczynski et al. 2017), WikiANN (Pan et al."
        " 2017) and others"
    ),
    scheme="entities",
    metrics=("f1", "precision", "recall", "accuracy"),
    label=("ner", "ner_tags", "tag", "tags", "labels", "label", "ner_tag"),
)
