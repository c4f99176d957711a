"""Run from the folder python: python3 -m unittest discover -s tests -t ."""
