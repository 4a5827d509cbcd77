"""What lies on disk: one class for each kind of folder, which alone knows its files. Torch-free."""
