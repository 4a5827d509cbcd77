"""Loading and saving models: Hugging Face folders, runs, the hub, ONNX."""
