"""The explorer: a Streamlit application that trains, samples and opens models from the browser.

A view asks `lab.analysis`, draws with `lab.plots` and reads runs with `lab.runs`; nothing here computes with tensors.
"""
