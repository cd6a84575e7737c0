"""crowdsweep as a Python library: what `import crowdsweep as cs` offers, on top of what the command line uses too.

Results equal those of the command line bit for bit, as fits run on one thread in both (`threads`).
"""
