"""Your own treebank in CoNLL-U: parts of speech, features and lemmas from one model.

Scores are those of the CoNLL 2018 shared task on the words of the file.
"""

from electra.finetuning.treebank import Treebank

TASK = Treebank(name="ud", version=1, source="Universal Dependencies: Nivre et al. 2020", max_length=512)
