"""Readers of labelled data, for fine-tuning and for probes.

examples         the examples that readers for fine-tuning return
splits           train, dev and test files of a folder; choosing examples by hash
tagged_sentences tagged words: CoNLL-U, columns, M2, lists
questions        questions about contexts: SQuAD's JSON, or one per line
sentence_pairs   scored pairs (STS-B), minimal pairs (BLiMP)
hypotheses       n-best lists of a speech recogniser

electra.data.rows reads tables. Every problem of a file is a DataError that names the file and the line.
"""
