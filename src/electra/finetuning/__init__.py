"""Fine-tuning: trains a pre-trained encoder on a labelled task and scores it over several seeds.

settings   all options, with the paper's values by model size
tasks      one file for each task; parts/ has the contract (task.py) and base classes
heads      one file for each head; parts/ has the contract (contract.py) and shared code
labelled   reads labelled data
windows    converts texts to token ids and batches, and predicted spans back to the text
metrics    accuracy, F1, correlations; SQuAD's scores; entities
runner     the data (dataset), all seeds (finetune), one seed (train_seed), search, baselines, the saved model
predict    predicts with a fine-tuned model
"""
