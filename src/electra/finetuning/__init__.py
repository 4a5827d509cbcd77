"""Fine-tuning: trains a pre-trained encoder on a labelled task and scores it over several seeds.

The way of a row, from the file to its score:

labelled/        reads files as people have them: tables, tagged sentences, spans, questions
task             the contract of a task, with its kinds: text, text_answers, word_tags, answer_spans
train/dataset    all splits of a task: a dev set held out, equal texts together, notes on the data
windows/         texts as token ids, in windows of the longest length that the model reads
counts           what a linear model sees of a text, a pair or a word without a network
linear_fit       fits it, alone or beside the states of an encoder
heads/           what is put on the encoder, one file each; heads/parts has the contract
train/prepared   settings with every default, and the windows of each split
score/choose_head  a linear head or fine-tuning: chosen on a part of the training rows
train/one_seed   trains a seed; train/calibrate fits its temperature, train/saved_model writes it
score/evaluate   outputs become predictions and scores (metrics, entities, squad)
score/baselines  the same scores without a network, and whether the difference is chance
score/records    files of predictions
train/all_seeds  all of it in this order, in a folder that can be resumed

settings         all options, with the paper's values by model size
predict          predicts with a fine-tuned model (finetuned_model, onnx_model)
"""
