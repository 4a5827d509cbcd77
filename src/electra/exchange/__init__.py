"""Loading and saving models: Hugging Face folders, runs, the hub, ONNX.

weight_names  weight names, ours <-> transformers
configs       config.json, both ways
adapted_folders  encoders that transformers runs: reads and writes their folders
pooling       pooling of token states, as sentence-transformers stores it
weights       weight files and their digests
huggingface   writes a model folder, without transformers
card          writes the model card of a run
loaded        a loaded model
source        finds the folder of a model: a path, an included model or a name on the hub
run_folder    opens the networks of a run, finished or not
load          loads a model from any of these
layers        keeps some of a trained model's layers or vocabulary entries
onnx_graph    exports a network as ONNX, and runs it
verify        checks a folder's files against their recorded digests
"""
