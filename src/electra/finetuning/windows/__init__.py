"""Texts as the encoder reads them: windows of token ids, batches of similar length, answers found again."""
