"""Models in and out: Hugging Face folders, runs, the hub, other programs' curves.

names        what our weights are called in transformers, both ways
configs      config.json, both ways
onnx_graph   the same as ONNX, and run as such
pooling      how a folder's vectors are pooled, both ways
huggingface  writing a model folder, without transformers
card         the model card of a run
source       the user's word for a model -> a folder
run_folder   the networks of a run, finished or stopped
load         any of these -> a model ready for use
warm_start   a new run's networks from the weights of others
transfer     export and import
hub          publishing: which files go, what is cut from them, sending them
verify       is everything as it was written?
trackers     other programs that keep curves
"""
