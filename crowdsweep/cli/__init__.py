"""The command line: `commands` has them all, the other files what a command needs to read its words and to answer."""
