"""A file of words for every page and every shared part. Each holds `WORDS`: key -> (English, Chinese)."""
