"""Raw kernels: OpenCL or C that its user wrote, with parameters that `#define` sets.

    kernel      RawKernel: source, parameters, arguments, answer; takes the place of a workload in `tune`
    spec        the same as plain data, for workers; its key; what the source declares, and the grid it runs on
    parameters  values as knobs; metrics and objectives
    formula     strings as expressions
    space       one sketch, whose knobs are the parameters
    backend     a configuration compiled, in a worker

Everything else (strategies, measuring, records, reports) is what workloads use.
"""
