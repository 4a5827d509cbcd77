"""Labelled data as people have it -> examples, or plain tuples; for fine-tuning and for the probes alike.

examples         what every reader for fine-tuning returns
splits           train, dev and test files of a folder; holding out and limiting by hash
tagged_sentences words with a tag each: CoNLL-U, columns, M2, lists
questions        questions about contexts: SQuAD's JSON, or one a line
sentence_pairs   scored pairs (STS-B), minimal pairs (BLiMP), judged sentences (CoLA)
hypotheses       n-best lists of a speech recogniser

Tables are read by electra.data.rows. Whatever is wrong is a DataError that names the file and the line.
"""
