"""Reads labelled data for fine-tuning and for probes.

examples         the examples that readers for fine-tuning return
splits           finds the train, dev and test files of a folder; chooses examples by hash
tagged_sentences sentences of tagged words: CoNLL-U, columns, M2, lists in tables
word_columns     the lines and columns of files with one word per line
words            splits texts into words
questions        questions about contexts: SQuAD's JSON, or one per line
sentence_pairs   scored pairs (STS-B), minimal pairs (BLiMP)
hypotheses       n-best lists of a speech recogniser

electra.data.rows reads tables. An invalid file raises a DataError that names the file and, if there is one,
the line.
"""
