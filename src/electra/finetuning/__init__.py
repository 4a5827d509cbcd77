"""Fine-tuning: a pre-trained encoder, a task, labelled data -> a model that answers, with its numbers over
several seeds.

task              what a task is; tasks/ has one file for each
text_task         tasks of one text or two: text_class, text_label_set, text_number, text_vectors
word_tags         tasks that tag the words of a sentence; entities: their F1
answer_spans      tasks whose answers are in a text; context_windows, span_search, squad_metrics
features          texts -> token ids; batches of similar length
tuned_model       the encoder with a head
heads             those of transformers' classes; vector_head, joint_head (the paper's reader)
counting_head     heads that start from counting: bag_head for single texts, compare_head for pairs;
                  term_answer, linear_fit
losses            cross-entropy with class weights
metrics           accuracy, F1, correlations; null with a reason where a number is not defined
settings          what can be set, the paper's values by model size
dataset           the splits of one fine-tuning, found, read and checked
one_seed          the loop, its checkpoints, evaluation
all_seeds         the output folder, the scores over seeds, the saved model
search            learning rate, epochs and layer decay chosen on a part of the training data
floors            what needs no network, on the same data
predict           a fine-tuned folder and a file -> predictions; onnx_model: the same as a graph
"""
