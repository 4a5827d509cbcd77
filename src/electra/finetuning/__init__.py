"""Fine-tuning: a pre-trained encoder, a task, labelled data -> a model that answers, with its numbers over
several seeds.

settings   what can be set, the paper's values by model size
tasks      one file for each task; parts/ has the contract (task) and the kinds of tasks
heads      one file for each head; parts/ has the contract and what heads share
labelled   labelled data as people have it
windows    texts -> token ids, batches of similar length, and back to the text
metrics    accuracy, F1, correlations; SQuAD's; entities
runner     the splits (dataset), the loop (one_seed), the seeds (all_seeds), search, baselines (floors), the
           saved model
predict    a fine-tuned folder and a file -> predictions
"""
