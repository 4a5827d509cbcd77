"""What a network says of tokens, words and sentences."""
