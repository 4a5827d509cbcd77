"""Your own data: sentences with a tag for each word.

BIO and BIOES tags are scored as entities, other tags word by word.
"""

from electra.finetuning.word_tags import WordTagging

TASK = WordTagging(
    name="tagging",
    version=2,
    source="your own data",
    label=("tag", "tags", "labels", "ner_tags", "slots", "UPOS", "label", "ner_tag"),
    max_length=512,
)
