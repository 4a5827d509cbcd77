"""What people pass: tables, lines, columns of words, scanned pages, objects from Python."""
