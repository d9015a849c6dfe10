"""Fault injection: killed processes, damaged files, full disks, races, random configurations, words and strings.

`make faults`, or `python -m tests.faults [--only KIND] [--scale 0.1] [--seed N]`. A kind is a module with
`run(n, seed, folder)` that makes n trials and returns a `Tally`; a fault that it finds is printed with the words that
repeat it.
"""
