"""Readers of labelled data for fine-tuning and for probes; `electra.data.tables.table` reads the tables.

An invalid file raises a DataError that names the file and, if there is one, the line.
"""
