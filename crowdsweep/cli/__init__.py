"""The command line: `commands` assembles all commands; other modules define commands, or parse arguments and print."""
