"""Labelled data as people have it -> examples, or plain tuples; for fine-tuning and for the probes alike.

examples         what every reader for fine-tuning returns
files            lines, bytes and JSON objects of a file, compressed or not
splits           train, dev and test files of a folder; holding out and limiting by hash
tables           csv, tsv, jsonl, parquet: rows of named columns
tagged_sentences words with a tag each: CoNLL-U, columns, M2, lists
questions        questions about contexts: SQuAD's JSON, or one a line
sentence_pairs   scored pairs (STS-B), minimal pairs (BLiMP), judged sentences (CoLA)
hypotheses       n-best lists of a speech recogniser

Whatever is wrong is a DataError that names the file and the line.
"""
