"""The ways in for devices, a folder each. `registry` names them, `listener` says what each of them is."""
