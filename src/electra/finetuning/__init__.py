"""Fine-tuning: trains a pre-trained encoder on a labelled task and scores it over several seeds.

settings   all options, with the paper's values by model size
tasks      one file for each task; parts/ has the contract (task) and the kinds of tasks
heads      one file for each head; parts/ has the contract and what heads share
labelled   readers of labelled data
windows    texts to token ids, batches of similar length, and predictions back to the text
metrics    accuracy, F1, correlations; SQuAD's scores; entities
runner     the data (dataset), the loop (one_seed), the seeds (all_seeds), search, baselines, the saved model
predict    predictions of a fine-tuned model for a file of texts
"""
