"""The listeners for devices, a folder each. `registry` lists them, `listener` defines their interface."""
