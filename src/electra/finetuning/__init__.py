"""Fine-tuning: a pre-trained encoder, a task, labelled data -> a model that answers, with its numbers over
several seeds.

tables    csv, tsv, jsonl and parquet files, compressed or not; finding train, dev and test in a folder
tasks/    one file per task; the contract is in tasks/__init__.py
sequence  the tasks that read one text or two and answer with a label, several, or a number
sentences files of labelled words: CoNLL-U, columns, M2, lists
tagging   the tasks that label the words of a sentence; entities: their F1
questions files of questions about contexts; context_windows: a long context in windows, tokens back to
characters question_answering  the tasks that find the answer in a context; readers: the paper's joint head;
squad_metrics: the official scores features  texts -> token ids; batches of similar length
heads     what stands on top of the encoder
compare_head  the head for pairs that starts from counting
losses    cross-entropy with class weights
metrics   accuracy, F1, correlations; null with a reason where a number is not defined
settings  what can be set, the paper's values by model size
dataset   the splits of one fine-tuning, found, read and checked
trainer   one seed: the loop, its checkpoints, evaluation
runner    all seeds: the output folder, the table, the saved model
predict   a fine-tuned folder and a file -> predictions
prompting the discriminator as a classifier without training or after a few examples; prompts: templates,
words, settings
"""
