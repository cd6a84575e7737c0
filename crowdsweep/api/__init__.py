"""crowdsweep as a Python library: what `import crowdsweep as cs` offers, over what the command line calls too.

Results equal the command line's, to the last bit: as there, fits compute on one thread (`threads`).
"""
