"""The two uses that ColdNotify exists for, played by real processes: `python -m coldnotify_demo`, or `make demo`.

Code to imitate (each runs by itself, with `python -m`):

    configuration_backend   watches a folder of YAML files, publishes their versions, serves them
    configuration_unit      an OU that keeps its copies of them up to date
    observation_backend     asks a group of OUs for data, and takes what they upload
    observation_unit        an OU that uploads what it is asked for, if it has it

The rest directs and checks: __main__ (the order of things), stage, service, company (the processes), promises,
configuration_acts and observation_acts (the two plays), faults.
"""
