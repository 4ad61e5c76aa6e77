"""The pure cores in one process, under one seed: messages delayed and lost, processes stopped and continued."""
