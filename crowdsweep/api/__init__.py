"""crowdsweep as a Python library: what `import crowdsweep as cs` offers, over what the command line calls too.

Answers are the command line's, to the last bit. To that end fits compute on one thread (`threads`), as they do there.
"""
